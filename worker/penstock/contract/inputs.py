"""Which files of an input a job reads, and which it does not, for people.

The set of files is fixed when a job first starts. A later look at the folder gives an
:class:`InputSeen`. The functions below turn it into text for the terminal, the logs and the status.
"""

from penstock.base.values import replace
from penstock.contract.codec import TolerantMessage


class InputSeen(TolerantMessage, tag="InputSeen"):
    """One look at the folder of an input. ``files`` are in the checkpoint; ``unread`` came later.

    ``passed`` counts entries of the folder that are no input: sub-folders, hidden files and files
    with another ending. ``unread_names`` and ``passed_names`` are the first few names. ``step`` is
    the source step.
    """

    path: str
    files: int
    unread: int = 0
    unread_names: tuple[str, ...] = ()
    passed: int = 0
    passed_names: tuple[str, ...] = ()
    step: str = ""

    def of(self, step: str) -> "InputSeen":
        """Name the step whose input this is."""
        return replace(self, step=step)


def unread_text(seen: InputSeen) -> str:
    """Return a text about the files that are not read; it is empty when all files are read."""
    if not seen.unread:
        return ""
    files = "1 file is" if seen.unread == 1 else f"{seen.unread:,} files are"
    return (
        f"input of {seen.step}: {files} not in the checkpoint and not read:"
        f" {named(seen.unread_names, seen.unread)} (in {seen.path}; the set of files is fixed when"
        " a job first starts)"
    )


def passed_text(seen: InputSeen) -> str:
    """Return a text about entries of the folder that are no input; it is empty without them."""
    if not seen.passed:
        return ""
    return f"input of {seen.step}: passed over: {named(seen.passed_names, seen.passed)}"


def named(names: tuple[str, ...], count: int) -> str:
    """Join the first names, and add how many of ``count`` are not among them."""
    more = count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
