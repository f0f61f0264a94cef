"""Keeps the status of a job in a cluster within what its object may hold.

A ConfigMap holds 1 MiB. A job of 1,024 workers, 256 steps and long reasons has more to tell, and an object that is
too large is not written at all: people and the operator would see an old status. So parts are left out, those first
that are only shown. What decides something is kept: workers with their pods, the failure, the load.
"""

from collections.abc import Callable

from penstock.base.limits import STATUS_BYTES_MAX, STATUS_TEXT_CHARS_MAX
from penstock.base.values import replace
from penstock.contract.codec import encode
from penstock.contract.reader import clipped
from penstock.contract.status import InputSeen, JobStatus, SinkStatus, StepStatus, UnlistedSource


def fitting_bytes(status: JobStatus) -> bytes:
    """Encode a status in at most ``STATUS_BYTES_MAX`` bytes. ``left_out`` of it names what it then lacks."""
    data = encode(status)
    for name, less in _LESS:
        if len(data) <= STATUS_BYTES_MAX:
            break
        status = replace(less(status), left_out=(*status.left_out, name))
        data = encode(status)
    return data


def _without_file_names(status: JobStatus) -> JobStatus:
    return replace(status, inputs=tuple(_counted(seen) for seen in status.inputs))


def _counted(seen: InputSeen) -> InputSeen:
    return replace(seen, unread_names=(), passed_names=())


def _with_short_reasons(status: JobStatus) -> JobStatus:
    return replace(
        status,
        steps=tuple(_short_step(step) for step in status.steps),
        sinks=tuple(_short_sink(sink) for sink in status.sinks),
        unlisted=tuple(_short_source(source) for source in status.unlisted),
    )


def _short_step(step: StepStatus) -> StepStatus:
    return replace(step, because=clipped(step.because, STATUS_TEXT_CHARS_MAX))


def _short_sink(sink: SinkStatus) -> SinkStatus:
    because, why = (clipped(text, STATUS_TEXT_CHARS_MAX) for text in (sink.because, sink.why))
    return replace(sink, because=because, why=why)


def _short_source(source: UnlistedSource) -> UnlistedSource:
    return replace(source, because=clipped(source.because, STATUS_TEXT_CHARS_MAX))


# In this order, until the status fits.
_LESS: tuple[tuple[str, Callable[[JobStatus], JobStatus]], ...] = (
    ("the splits with most left to read", lambda status: replace(status, splits=())),
    ("the names of input files", _without_file_names),
    (f"reasons beyond {STATUS_TEXT_CHARS_MAX} characters", _with_short_reasons),
    (
        "the addresses of metrics",
        lambda status: replace(status, workers=tuple(replace(w, metrics="") for w in status.workers)),
    ),
    ("the inputs", lambda status: replace(status, inputs=())),
    ("the steps", lambda status: replace(status, steps=())),
)
