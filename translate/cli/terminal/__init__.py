"""What commands share: options and their help, input lines, progress bars, messages, and how the process ends."""
