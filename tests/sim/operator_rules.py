"""The rules of the operator's decisions, each with the one line that is left out to show it."""

from dataclasses import dataclass

from penstock.testing.patching import Patch

STEPS = 120


@dataclass(frozen=True, slots=True)
class Mutant:
    """``rule`` in words, the changed line, and a seed whose run notices it."""

    rule: str
    patch: Patch
    seed: int


def _line(module: str, line: str, mutated: str) -> Patch:
    return Patch(f"penstock_operator.reconcile.{module}", line, mutated)


MUTANTS = {
    "shrinks-unsettled": Mutant(
        "workers go only when the smaller number is committed and its output is published",
        _line(
            "workers",
            "needed = workers_needed(latest, now.value, at.replicas)",
            "needed = now.value.workers",
        ),
        0,
    ),
    "starts-beside-old-pods": Mutant(
        "a start waits until no pod of the spec before is left",
        _line(
            "course",
            "return not seen.pods and _empty(seen) and (at is None or at.observed)",
            "return _empty(seen)",
        ),
        0,
    ),
    "recreates-latest": Mutant(
        "-latest is created only while nothing shows that the job ever began",
        _line(
            "metadata",
            "if began(seen) and not (_asks_to_restore(seen, target) and is_down(seen)):",
            "if False:",
        ),
        0,
    ),
    "snapshot-over-any-version": Mutant(
        "an old view undoes no answer of a snapshot",
        _line(
            "snapshots",
            "draft.do(WriteSnapshotStatus(view.name, status, view.version))",
            'draft.do(WriteSnapshotStatus(view.name, status, ""))',
        ),
        0,
    ),
    "start-drops-requests": Mutant(
        "a request goes only after a status has its answer",
        _line(
            "workers",
            "requests=tuple(r for r in now.value.requests if r in asked),",
            "requests=(),",
        ),
        0,
    ),
    "adopts-nothing-keeps-nothing": Mutant(
        "the record of an earlier job of the same name is kept under its uid",
        _line(
            "metadata",
            "draft.do(Archive(str(old), seen.latest.uid, seen.latest.version))",
            'draft.do(Delete("ConfigMap", f"{seen.job.name}-ckpt-latest", seen.latest.uid))',
        ),
        0,
    ),
    "every-deletion-purges": Mutant(
        "only a purge removes what is committed",
        _line(
            "deletion",
            "elif deletion_policy(seen) is DeletionPolicy.PURGE "
            "and not _forgotten(seen, latest, draft):",
            "elif not _forgotten(seen, latest, draft):",
        ),
        0,
    ),
    "finalizer-always": Mutant(
        "a finalizer only while a deletion has something to wait for",
        _line(
            "surroundings",
            "wanted = deletion_policy(seen) is not DeletionPolicy.RETAIN",
            "wanted = True",
        ),
        0,
    ),
    "creates-by-apply": Mutant(
        "an old view that saw no StatefulSet overwrites none",
        _line("workers", "draft.do(Create(manifest))", "draft.do(Apply(manifest, applied))"),
        0,
    ),
    "same-run-again": Mutant(
        "a resumed job begins a new run, which clears how the last one ended",
        _line(
            "workers",
            "if closed or digest != target.digest[:8]:",
            "if digest != target.digest[:8]:",
        ),
        0,
    ),
    "waits-for-savepoint-for-ever": Mutant(
        "a suspension whose savepoint does not come goes back to the last checkpoint",
        _line(
            "course",
            "return Course.END if suspending and (late or refused(pending, latest)) "
            "else Course.STOP",
            "return Course.STOP",
        ),
        0,
    ),
    "no-turn": Mutant(
        "the number of workers changes only after the StatefulSet was given the turn",
        _line(
            "workers",
            "draft.do(Scale(max(at.replicas, workers), at.turn + 1, at.version))",
            "pass",
        ),
        0,
    ),
}
