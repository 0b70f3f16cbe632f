"""The config: every key with its default, meaning and bounds, and how YAML files and overrides become a `Config`."""
