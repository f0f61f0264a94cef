"""What a restore does about committed output that is not visible: sink by sink. Pure.

    Fail    ── the marker says what is visible ──────────────> publish the rest, or refuse
    Publish ── the same; a lost marker counts as "nothing" ──> publish, rows may be there twice
    Skip    ── as Fail, without the rows that are refused ───> publish the others
    Drop    ── fence, then the marker as if all was visible ─> nothing is published, now or later

Each applies to the output of one epoch, the restored one. A sink that the job does not have any more can only be
dropped. Nobody can publish for it, so there is no fence.
"""

from collections.abc import Iterable, Sequence

from penstock.base.suggest import unknown
from penstock.contract.ids import Epoch
from penstock.contract.latest import ANY_SINK, LostRows, SinkRestore, Unpublished, how_of
from penstock.contract.manifest import RootManifest, SinkHandle, StepRows
from penstock.contract.plan import SINK, PhysicalPlan
from penstock.protocol.state_matching import unpublishable


def handles_of(root: RootManifest) -> list[SinkHandle]:
    """List the output of a checkpoint."""
    return [handle for task in root.tasks for handle in task.handles]


def publishable(root: RootManifest, plan: PhysicalPlan) -> list[SinkHandle]:
    """List the output of a checkpoint that some sink of the plan can publish."""
    gone = unpublishable(root, plan)
    return [handle for handle in handles_of(root) if handle.sink not in gone]


def misplaced(root: RootManifest, plan: PhysicalPlan, sinks: Sequence[SinkRestore]) -> str | None:
    """Return why the unpublished output of ``root`` cannot be handled as ``sinks`` says; None when it can."""
    gone = unpublishable(root, plan)
    here = sorted({s.step for s in plan.states if s.kind == SINK} | {h.sink for h in handles_of(root)})
    for each in sinks:
        if each.sink not in (*here, ANY_SINK):
            return f"StateError: restore.unpublishedSinks: {unknown('sink', each.sink, here)}"
    left = [name for name in gone if how_of(name, sinks) is not Unpublished.DROP]
    if not left:
        return None
    return (
        f"StateError: nobody knows that the output of epoch {root.epoch} is all visible, and the "
        f"job cannot publish it: sinks {left} are gone or of another kind: run the job as it "
        f"was and stop it, or give restore.unpublishedSinks: {{{left[0]}: Drop}} to lose what is not"
    )


def lost_rows(root: RootManifest, sinks: Sequence[SinkRestore], skipped: Iterable[StepRows]) -> list[LostRows]:
    """Say how many rows of each sink were given up of the epoch of ``root``: all that are dropped, and ``skipped``."""
    rows: dict[str, int] = {}
    for handle in handles_of(root):
        if how_of(handle.sink, sinks) is Unpublished.DROP:
            rows[handle.sink] = rows.get(handle.sink, 0) + handle.rows
    for each in skipped:
        rows[each.step] = rows.get(each.step, 0) + each.rows
    return [LostRows(sink, Epoch(root.epoch), count) for sink, count in rows.items() if count]
