"""The two ways a command can fail, so that the exit code follows from the class alone."""


class InputError(Exception):
    """What the user gave cannot be used (exit code 2): a key, a file, a line; the message says which and the mend."""


class RunError(Exception):
    """Something failed while running (exit code 1): a non-finite loss, a full disk, a damaged checkpoint."""
