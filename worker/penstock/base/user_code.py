"""What a user's exception looks like to its user: one line that says what, and the user's frames.

Frames of Penstock itself are left out: no job can be mended there. Everything is bounded, because
the text travels in heartbeats and is kept in the status of the job.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.limits import (
    USER_MESSAGE_CHARS_MAX,
    USER_TRACE_CAUSES_MAX,
    USER_TRACE_CHARS_MAX,
    USER_TRACE_FRAMES_MAX,
)
from penstock.base.visible import visible

if TYPE_CHECKING:
    from traceback import FrameSummary
    from types import FrameType

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IMPORTS = os.path.dirname(importlib.__file__) + os.sep
_BECAUSE = "The above exception was the direct cause of the one before it:"
_MEANWHILE = "The one before it was raised while this one was handled:"


def named(error: BaseException) -> str:
    """Spell an exception in one bounded text: its type, and its message where it has one."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception as unreadable:  # a user's __str__ may raise, too
        text = f"its message cannot be read: {type(unreadable).__name__}"
    return shortened(visible(f"{name}: {text}" if text else name), USER_MESSAGE_CHARS_MAX)


def shortened(text: str, chars_max: int) -> str:
    """Cut a text at ``chars_max`` characters, and say that it was cut."""
    return text if len(text) <= chars_max else f"{text[:chars_max]}..."


def user_frames(error: BaseException) -> "list[FrameSummary]":
    """Return the frames of a traceback that are not Penstock's own, outermost first."""
    import traceback  # noqa: PLC0415  the command line starts without it

    return [f for f in traceback.extract_tb(error.__traceback__) if is_users(f.filename)]


def is_users(file: str) -> bool:
    """Say whether a file of a traceback is neither Penstock's nor part of the import machinery."""
    return not file.startswith(("<frozen", _OURS, _IMPORTS))


def users_frame() -> "FrameType":
    """Return the nearest frame that is neither Penstock's nor part of the import machinery."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def caller_place() -> str:
    """Return ``file:line`` of the nearest caller that is not part of Penstock."""
    frame = users_frame()
    return f"{short_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def short_path(file: str) -> str:
    """Return a path relative to the working directory, if it is inside; otherwise unchanged."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def user_traceback(error: BaseException) -> str:
    """Return the user's part of a traceback as Python spells it, without the exception's own line.

    What it was raised from follows. Empty when no frame is the user's. Of many frames the first
    and the last are shown. At most USER_TRACE_CHARS_MAX characters.
    """
    parts: list[str] = []
    shown: BaseException | None = error
    for _ in range(USER_TRACE_CAUSES_MAX):
        if shown is None:
            break
        parts += _frames(shown)
        cause, context = shown.__cause__, shown.__context__
        shown = cause if cause is not None or shown.__suppress_context__ else context
        if shown is not None:
            parts += [_BECAUSE if cause is not None else _MEANWHILE, named(shown)]
    return _without_middle("\n".join(parts), USER_TRACE_CHARS_MAX)


def _without_middle(text: str, chars_max: int) -> str:
    """Cut a text in its middle: where the job called, and where it raised, say the most."""
    if len(text) <= chars_max:
        return text
    begins, ends = text[: chars_max // 3], text[-(chars_max - chars_max // 3) :]
    return f"{begins[: begins.rfind(chr(10))]}\n  ...\n{ends[ends.find(chr(10)) + 1 :]}"


def _frames(error: BaseException) -> list[str]:
    frames = user_frames(error)
    if not frames:
        return []
    from traceback import format_list  # noqa: PLC0415  the command line starts without it

    half, left_out = USER_TRACE_FRAMES_MAX // 2, len(frames) - USER_TRACE_FRAMES_MAX
    if left_out <= 0:
        told = format_list(frames)
    else:
        between = f"  ... {left_out} more frames ...\n"
        told = [*format_list(frames[:half]), between, *format_list(frames[-half:])]
    return ["Traceback of your code (most recent call last):", "".join(told).rstrip("\n")]


def user_line(error: BaseException) -> str:
    """Return which line of user code raised which error.

    For example ``jobs.py:7 (in build): ValueError: ...``.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{short_path(error.filename)}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = user_frames(error)
    if not frames:
        return named(error)
    last = frames[-1]
    inside = "" if last.name == "<module>" else f" (in {last.name})"
    return f"{short_path(last.filename)}:{last.lineno}{inside}: {named(error)}"
