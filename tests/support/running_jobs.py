"""A town of keepers and engines as most tests of the control core begin with it."""

from penstock.base.values import replace
from penstock.contract import control
from penstock.contract.columns import Column
from penstock.contract.manifest import RootManifest
from penstock.protocol.control_actions import SendCommand
from tests.support.in_memory_control_plane import InMemoryControlPlane
from tests.support.stub_engine import PLAN

OTHER_STATES = tuple(
    replace(s, keys=(Column("lang", "string"),)) if s.step == "counts" else s for s in PLAN.states
)
OTHER_PLAN = replace(PLAN, fingerprint="plan-2", states=OTHER_STATES)


def running(workers: int = 2, epoch: int = 1) -> InMemoryControlPlane:
    """Return a town whose job runs and has committed ``epoch``."""
    town = InMemoryControlPlane(workers)
    town.until(lambda: town.latest.epoch >= epoch)
    return town


def root(town: InMemoryControlPlane) -> RootManifest:
    """Return the manifest of the newest committed epoch."""
    assert town.latest.root is not None
    manifest = town.blobs[town.latest.root.name]
    assert isinstance(manifest, RootManifest)
    return manifest


def heard(town: InMemoryControlPlane, kind: str) -> int:
    """Count the commands of a kind that the engines of all workers have heard."""
    return sum(town.engine(o).heard.count(kind) for o in town.keepers)


def rescaled(town: InMemoryControlPlane, workers: int) -> bool:
    """Say whether a rescale to ``workers`` is committed and settled."""
    at = town.latest
    return at.workers == workers and at.settled == at.version


def up(town: InMemoryControlPlane, *ordinals: int) -> None:
    """Start workers and want them."""
    for ordinal in ordinals:
        town.start(ordinal)
    town.want(workers=max(ordinals) + 1)


def sent(town: InMemoryControlPlane, kind: type) -> list[control.Command]:
    """Return all commands of ``kind`` that leaders have sent."""
    return [
        action.envelope.body  # type: ignore[misc]
        for _, _, _, _, actions in town.steps
        for action in actions
        if isinstance(action, SendCommand) and isinstance(action.envelope.body, kind)
    ]


def mute(town: InMemoryControlPlane, ordinal: int, *kinds: str) -> None:
    """Have a running or coming engine leave some commands undone."""
    town.mute[ordinal] = kinds
    engine = town.keepers[ordinal].engine if ordinal in town.keepers else None
    if engine is not None:
        engine.mute = list(kinds)
