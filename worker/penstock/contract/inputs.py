"""What is known of the files of an input, for people: which are read, and which are not.

The set of files is fixed when a job first starts. Whoever looks at a folder again fills an
:class:`InputSeen`; the terminal, the logs and the operator spell it with the functions below.
"""

from dataclasses import dataclass, replace

from penstock.contract.codec import Message


@dataclass(frozen=True, slots=True)
class InputSeen(Message, tag="InputSeen"):
    """One look at an input. ``files`` are in the checkpoint, ``unread`` came later.

    ``unread_names`` and ``passed_names`` are the first few of ``unread`` and ``passed``; the latter
    are entries of the folder that are no input (sub-folders, hidden, another ending). ``step`` is
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
    """Say which files are not read, and why; empty where all are."""
    if not seen.unread:
        return ""
    files = "1 file is" if seen.unread == 1 else f"{seen.unread:,} files are"
    return (
        f"input of {seen.step}: {files} not in the checkpoint and not read:"
        f" {named(seen.unread_names, seen.unread)} (in {seen.path}; the set of files is fixed when"
        " a job first starts)"
    )


def passed_text(seen: InputSeen) -> str:
    """Say what of the folder is passed over; empty where nothing is."""
    if not seen.passed:
        return ""
    return f"input of {seen.step}: passed over: {named(seen.passed_names, seen.passed)}"


def named(names: tuple[str, ...], count: int) -> str:
    """Join the first names of ``count``, and count the others."""
    more = count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more > 0 else "")
