"""The one exception for what a user can mend."""


class KernelcatError(Exception):
    """A mistake in the input: its text is one line with the place, what was found and what was expected.

    Command lines print the text and exit with code 1 or 2; nothing else of the exception is shown.
    """
