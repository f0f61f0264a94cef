"""Which StreamJob an object belongs to: by the uid of its controller, or else by its label."""

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.streamjob import KIND
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at

GROUP = "penstock.dev/"


def controller_of(plain: Plain) -> Object:
    """Return the owner reference of an object's controller; empty when it has none."""
    owners = list_at(plain, "metadata", "ownerReferences")
    return next((object_at(o) for o in owners if at(o, "controller") is True), {})


def job_of(plain: Plain) -> str:
    """Return the uid of the StreamJob that an object belongs to; empty when there is none.

    The controller decides. If it is of another kind, the object is not ours, whatever its labels
    say. Two groups of objects are recognised by their label: pods, because their StatefulSet
    controls them; and objects without a controller, which outlive their job or have lost their
    owner reference. A uid is random, so a label never has it by chance.
    """
    controller = controller_of(plain)
    if is_stream_job(controller):
        return text_at(controller, "uid")
    if controller and text_at(plain, "kind") != "Pod":
        return ""
    return text_at(plain, "metadata", "labels", pod.LABEL_JOB_UID)


def is_worker(plain: Plain, job: str, job_uid: str, set_uid: str) -> bool:
    """Say whether a pod is a worker of a job: by its name, its controller, and then its label.

    A pod that the StatefulSet ``set_uid`` controls (empty: there is none) is one, whatever its
    labels say. A pod of an earlier StatefulSet of this name, or an orphaned one, counts by its
    label: it still runs.
    """
    workers = pod.workers_name(job)
    head, _, ordinal = text_at(plain, "metadata", "name").rpartition("-")
    named = ordinal.isascii() and ordinal.isdecimal() and str(int(ordinal)) == ordinal
    if head != workers or not named:
        return False
    controller = controller_of(plain)
    if controller and (text_at(controller, "kind"), text_at(controller, "name")) != (
        "StatefulSet",
        workers,
    ):
        return False
    of_set = bool(set_uid) and text_at(controller, "uid") == set_uid
    return of_set or text_at(plain, "metadata", "labels", pod.LABEL_JOB_UID) == job_uid


def is_stream_job(reference: Plain) -> bool:
    """Say whether a reference names a StreamJob."""
    return text_at(reference, "kind") == KIND and text_at(reference, "apiVersion").startswith(GROUP)


def owner_text(plain: Plain) -> str:
    """Name the controller of an object, for messages; empty when it has none."""
    controller = controller_of(plain)
    return f"{text_at(controller, 'kind')} {text_at(controller, 'name')}".strip()
