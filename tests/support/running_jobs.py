"""Running jobs in an in-memory control plane, as most tests of the control core need them."""

from penstock.base.values import replace
from penstock.contract import control_messages as control
from penstock.contract.columns import Column
from penstock.contract.manifest import RootManifest
from penstock.protocol.keeper_core_messages import SendCommand
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.stub_engine import PLAN

OTHER_STATES = tuple(replace(s, keys=(Column("lang", "string"),)) if s.step == "counts" else s for s in PLAN.states)
OTHER_PLAN = replace(PLAN, fingerprint="plan-2", states=OTHER_STATES)


def running(workers: int = 2, epoch: int = 1) -> InMemoryControlPlane:
    """Return a control plane whose job runs and has committed ``epoch``."""
    plane = InMemoryControlPlane(workers)
    plane.until(lambda: plane.latest.epoch >= epoch)
    return plane


def root(plane: InMemoryControlPlane) -> RootManifest:
    """Return the manifest of the newest committed epoch."""
    assert plane.latest.root is not None
    manifest = plane.blobs[plane.latest.root.name]
    assert isinstance(manifest, RootManifest)
    return manifest


def taken(plane: InMemoryControlPlane, kind: str) -> int:
    """Count the commands of a kind that the engines of all workers have taken."""
    return sum(plane.engine(o).commands.count(kind) for o in plane.keepers)


def rescaled(plane: InMemoryControlPlane, workers: int) -> bool:
    """Return whether a rescale to ``workers`` is committed and settled."""
    at = plane.latest
    return at.workers == workers and at.settled == at.version


def up(plane: InMemoryControlPlane, *ordinals: int) -> None:
    """Start workers and request them."""
    for ordinal in ordinals:
        plane.start(ordinal)
    plane.want(workers=max(ordinals) + 1)


def sent(plane: InMemoryControlPlane, kind: type) -> list[control.Command]:
    """Return all commands of ``kind`` that leaders have sent."""
    return [
        action.envelope.body  # type: ignore[misc]
        for _, _, _, _, actions in plane.steps
        for action in actions
        if isinstance(action, SendCommand) and isinstance(action.envelope.body, kind)
    ]


def mute(plane: InMemoryControlPlane, ordinal: int, *kinds: str) -> None:
    """Let a worker's engine, present or next, leave some commands undone."""
    plane.mute[ordinal] = kinds
    engine = plane.keepers[ordinal].engine if ordinal in plane.keepers else None
    if engine is not None:
        engine.mute = list(kinds)
