"""What `translate check` runs: looks at settings and data before a training."""
