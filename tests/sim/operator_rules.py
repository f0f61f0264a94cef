"""The rules of the operator's decisions, each with the one line that is left out to show it."""

from dataclasses import dataclass

from penstock.testing.patching import Patch

STEPS = 60


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
        10,
    ),
    "starts-beside-old-pods": Mutant(
        "a start waits until no pod of the spec before is left",
        _line(
            "course",
            "return not seen.pods and _empty(seen) and (at is None or at.observed)",
            "return _empty(seen)",
        ),
        7,
    ),
    "adopts-nothing-keeps-nothing": Mutant(
        "the record of an earlier job of the same name is kept under its uid",
        _line(
            "metadata",
            "draft.do(Archive(str(old), seen.latest.uid, seen.latest.version))",
            'draft.do(Delete("ConfigMap", f"{seen.job.name}-ckpt-latest", seen.latest.uid))',
        ),
        21,
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
}
