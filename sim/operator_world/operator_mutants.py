"""The mutants of the operator: each breaks one rule by changing one line of ``reconcile``."""

from dataclasses import dataclass

from sim.mutants.patching import Patch

STEPS = 60


@dataclass(frozen=True, slots=True)
class Mutant:
    """The ``rule`` in words, the changed line, and a seed whose run detects the change.

    Some situations are rare. Users with certain ``habits``, or more ``steps``, make them common.
    """

    rule: str
    patch: Patch
    seed: int
    steps: int = STEPS
    habits: tuple[str, ...] = ()


def _line(module: str, line: str, mutated: str) -> Patch:
    return Patch(f"penstock_operator.reconcile.{module}", line, mutated)


MUTANTS = {
    "shrinks-unsettled": Mutant(
        "workers end only when the smaller number is committed and its output is published",
        _line(
            "workers",
            "needed = workers_needed(latest, now.value, current.replicas)",
            "needed = now.value.workers",
        ),
        10,
    ),
    "starts-beside-old-pods": Mutant(
        "a start waits until no pod of the earlier spec is left",
        _line(
            "lifecycle",
            "return not seen.pods and _has_no_replicas(seen) and settled",
            "return _has_no_replicas(seen)",
        ),
        7,
    ),
    "recreates-latest": Mutant(
        "-latest is created only while nothing shows that the job ever began",
        _line(
            "children",
            "if has_begun(seen) and not (_asks_to_restore(seen, target) and is_down(seen)):",
            "if False:",
        ),
        13,
        steps=200,
    ),
    "start-drops-requests": Mutant(
        "a request is removed only after a status has its answer",
        _line(
            "workers",
            "requests=tuple(r for r in now.value.requests if r in asked),",
            "requests=(),",
        ),
        242,
        steps=120,
        habits=("snapshot", "restartNonce"),
    ),
    "every-deletion-purges": Mutant(
        "only a purge deletes -latest",
        _line(
            "lifecycle",
            "if purges and not _is_metadata_deleted(seen, builder):",
            "if not _is_metadata_deleted(seen, builder):",
        ),
        2,
        steps=120,
        habits=("delete", "deletionPolicy"),
    ),
    "takes-over": Mutant(
        "a foreign object under a name of the job is not written",
        _line(
            "children",
            "return child is None or (seen.owns(child) and (child.applied != applied or seen.refresh))",
            "return child is None or child.applied != applied or seen.refresh",
        ),
        8,
        habits=("strangers", "replicas"),
    ),
    "deletes-theirs": Mutant(
        "a foreign object with the name of an epoch view is not deleted",
        _line(
            "lifecycle",
            "if epoch is not None and child.job_uid == uid and not child.deleting:",
            "if epoch is not None and not child.deleting:",
        ),
        13,
        steps=120,
        habits=("strangers", "replicas"),
    ),
    "rolled-back-unscaled": Mutant(
        "a spec that came back by a rollback is scaled like any other",
        _line(
            "scaling",
            "held = accepted.given_up not in {None, Reason.ROLLED_BACK}",
            "held = accepted.given_up is not None",
        ),
        736,
        steps=120,
        habits=("upgrade", "image", "load"),
    ),
    "orphans-hang": Mutant(
        "the finalizer of a snapshot without a job is removed",
        _line("snapshots", "if _is_orphan_held(view):", "if False:"),
        8,
        steps=120,
        habits=("delete", "snapshot", "forget"),
    ),
    "adopts-nothing-keeps-nothing": Mutant(
        "the -latest of an earlier job of the same name is archived",
        _line(
            "children",
            "builder.do(Archive(str(old), seen.latest.uid, seen.latest.version))",
            'builder.do(Delete("ConfigMap", f"{seen.job.name}-ckpt-latest", seen.latest.uid))',
        ),
        21,
    ),
    "finalizer-always": Mutant(
        "a job has a finalizer only if its deletion has something to wait for",
        _line(
            "children",
            "wanted = deletion_policy(seen) is not DeletionPolicy.RETAIN",
            "wanted = True",
        ),
        0,
    ),
    "scales-in-a-rescale": Mutant(
        "the autoscaler chooses only after its last choice is settled",
        _line("scaling", "if state is not StreamJobState.RUNNING:", "if False:"),
        4,
        steps=120,
        habits=("load",),
    ),
    "forgets-its-choice": Mutant(
        "the autoscaler's number is taken from the status, whichever operator wrote it",
        _line(
            "accept",
            "replicas = there or spec.replicas if chosen is None else chosen.replicas",
            "replicas = there or spec.replicas",
        ),
        4,
        habits=("load",),
    ),
    "waits-for-ever": Mutant(
        "workers that do not appear are given up, and the committed number is wanted again",
        _line("scaling", "missing = _take_back(inputs, old, bounds)", "missing = None"),
        4,
        habits=("load",),
    ),
    "two-autoscalers": Mutant(
        "our autoscaler is off when another one writes spec.replicas",
        _line(
            "accept",
            "if spec.autoscaling is None or seen.job.scaled_by_hpa:",
            "if spec.autoscaling is None:",
        ),
        4,
        habits=("load", "hpa"),
    ),
}
