"""The checks of `translate check`: inspects settings and data before a training."""
