"""Shared by the commands: options and help, input lines, progress bars, messages, and how the process ends."""
