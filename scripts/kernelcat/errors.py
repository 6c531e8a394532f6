"""The one exception for what a user can mend, and how commands and jobs end."""

import os
import signal
import sys
from collections.abc import Callable

from kernelcat.fault import one_line, printable


class KernelcatError(Exception):
    """A mistake in the input: its text is one line with the place, what was found and what was expected.

    Command lines print the text and exit with code 1 or 2; nothing else of the exception is shown. Texts quote names
    from the input: control characters in them are escaped here, and what is longer than any sensible line is cut.
    """

    def __init__(self, text: str):
        super().__init__(one_line(text, 4000))


def exit_code(job: Callable[[], int | None]) -> int:
    """Runs a command or job and returns its exit code: what it returns, 130 when it is interrupted, or 1 after one line
    on stderr for a user's mistake or a file that the system refuses."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # where the terminal has no "µ", as in ASCII
    try:
        return job() or 0
    except KernelcatError as error:
        print(f"kernelcat: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT  # whoever pressed the keys knows why it ended
    except BrokenPipeError:
        # the reader, `head` perhaps, has seen enough; what Python flushes at its end must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        print(printable(f"kernelcat: {error.filename or 'output'}: {error.strerror or error}"), file=sys.stderr)
    return 1
