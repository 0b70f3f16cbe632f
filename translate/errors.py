"""The two ways a command can fail, so that the exit code follows from the class alone."""


class InputError(Exception):
    """The input cannot be used (exit code 2); the message names the key, or the file and line, and what to do."""


class RunError(Exception):
    """Something failed while running (exit code 1): a non-finite loss, a full disk, a damaged checkpoint."""
