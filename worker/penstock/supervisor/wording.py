"""Remedies in the words of the command line.

The texts of a leader name fields of a StreamJob, because they are read in a cluster as well. On one
machine, options of ``penstock run`` do the same.
"""

import re

_DROPPED = re.compile(r"restore\.dropState: \[([^\]]*)\]")
_OUTPUT = re.compile(r"restore\.unpublishedSinks: \{(\S+): (\w+)\}")
_OPTIONS = (
    ("restore.dropState", "--drop-state"),
    ("restore.unpublished: Drop", "--drop-unpublished"),
    ("restore.unpublishedSinks", "--unpublished"),
    ("restore.allowOutputReplay", "--allow-output-replay"),
    # There is committed output wherever this is advised.
    ("restore.empty", "--restore empty --allow-output-replay"),
)


def as_options(text: str) -> str:
    """Return a text with options in the place of the fields of ``spec.restore``.

    The class of an error, which a leader writes in front, tells a user nothing.
    """
    text = _DROPPED.sub(_drop_options, text.removeprefix("StateError: "))
    text = _OUTPUT.sub(r"--unpublished \1=\2", text)
    for field, option in _OPTIONS:
        text = text.replace(field, option)
    return text


def _drop_options(found: "re.Match[str]") -> str:
    return " ".join(f"--drop-state {name}" for name in found[1].split(", "))
