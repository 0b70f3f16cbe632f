"""The checks of `translate check`: inspects settings and data before training."""
