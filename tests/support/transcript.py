"""Transcripts of a control plane as text: each event with the actions of the core, one line each.

Repetitions without a change are left out: heartbeats that change nothing, the Lease, polls of the
object, ticks. A swap is shown by its changes.
"""

from penstock.contract import control_messages as control
from penstock.contract.latest import Answer, Latest
from penstock.contract.manifest import BlobRef
from penstock.protocol import keeper_core_messages as km
from tests.support.in_memory_control_plane import InMemoryControlPlane, Step

QUIET = (km.ReadLease, km.WriteLease, km.ReadLatest, km.StartEngine)
SHOWN = ("attempt", "term", "epoch", "version", "kind", "request", "reason", "ok")


def transcript(plane: InMemoryControlPlane, since: int = 0) -> str:
    """Return the steps of a control plane that changed something, from number ``since`` on."""
    lines: list[str] = []
    last = Latest(plane.latest.job_uid, plane.latest.swap_id)
    for step in plane.steps[:since]:
        last = _actions(step, last)[1]
    for step in plane.steps[since:]:
        told, last = _actions(step, last)
        if told:
            now, ordinal, which, event, _ = step
            core = "leader" if which == "c" else "member"
            lines.append(f"{now:6.2f} {core} {ordinal} <- {_event(event)}")
            lines += [f"       > {text}" for text in told]
    return "\n".join(lines) + "\n"


def _actions(step: Step, last: Latest) -> tuple[list[str], Latest]:
    told: list[str] = []
    for action in step[4]:
        match action:
            case km.SwapLatest(latest):
                told.append(f"swap {_changes(last, latest)}")
                last = latest
            case km.SendCommand(ordinal, _, envelope):
                told.append(f"tell {ordinal}: {_spell(envelope.body)}")
            case km.SendReport(_, envelope):
                if not isinstance(envelope.body, control.Heartbeat):
                    told.append(f"report {_spell(envelope.body)}")
            case km.ToEngine(_, term, command):
                told.append(f"engine: {_spell(command)} term={term}")
            case km.WriteBlob(name) | km.CopySavepoint(_, name) | km.IndexSavepoint(_, name):
                told.append(f"{type(action).__name__} {name}")
            case km.DeleteBlobs(names):
                told.append(f"delete {len(names)} files")
            case km.Note(text):
                told.append(f"note {text}")
            case _ if isinstance(action, QUIET):
                pass
            case _:
                told.append(_spell(action))
    return told, last


def _event(event: object) -> str:
    match event:
        case km.ReportArrived(envelope):
            return f"from {envelope.sender}: {_report(envelope.body)}"
        case km.CommandArrived(envelope):
            return _spell(envelope.body)
        case km.EngineReported(_, report):
            return f"engine said {_spell(report)}"
        case km.BlobWritten(ref) | km.BlobRead(ref):
            return f"{type(event).__name__} {ref.name}"
        case _:
            return _spell(event)


def _report(body: object) -> str:
    if isinstance(body, control.Heartbeat):
        status = body.status
        known = _fields(status)
        told = " ".join(f"{name}={value}" for name, value in known.items() if value)
        return f"heartbeat {told}".rstrip()
    return _spell(body)


def _spell(value: object) -> str:
    known = _fields(value)
    told = [f"{name}={known[name]}" for name in SHOWN if name in known]
    if isinstance(value, control.TaskAck):
        told.append(f"task={value.manifest.task}")
    if isinstance(value, control.Publish):
        told.append(f"handles={len(value.handles)}")
    return " ".join([type(value).__name__, *told])


def _changes(old: Latest, new: Latest) -> str:
    told = []
    before = _fields(old)
    for name, after in _fields(new).items():
        if before[name] != after and name != "swap_id":
            told.append(f"{name}={_value(after)}")
    return " ".join(told)


def _fields(value: object) -> dict[str, object]:
    """Return the fields of a dataclass or of a message."""
    names: tuple[str, ...] = type(value).__match_args__  # type: ignore[attr-defined]
    return {name: getattr(value, name) for name in names}


def _value(value: object) -> str:
    if isinstance(value, BlobRef):
        return value.name
    if isinstance(value, tuple):
        return f"[{', '.join(map(_brief, value))}]"
    return str(getattr(value, "incarnation", value))


def _brief(value: object) -> str:
    """Show what a list has by its number, and an answer as it is."""
    return str(value if isinstance(value, Answer) else getattr(value, "epoch", getattr(value, "ordinal", value)))
