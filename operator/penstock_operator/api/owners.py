"""Whose an object is: of which StreamJob, by its controller's uid, or its label without one."""

from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.streamjob import KIND
from penstock_operator.api.plain import Object, at, list_at, object_at, text_at

GROUP = "penstock.dev/"


def controller_of(plain: Plain) -> Object:
    """Return the reference to what controls an object, empty when nothing does."""
    owners = list_at(plain, "metadata", "ownerReferences")
    return next((object_at(o) for o in owners if at(o, "controller") is True), {})


def job_of(plain: Plain) -> str:
    """Return the uid of the StreamJob that an object is of, empty when it is of none.

    A controller says it: one of another kind means that the object is not ours, whatever its
    labels say. Pods are controlled by their set, so their label counts, as it does for what has no
    controller: what outlives its job, and what somebody took the reference from. A uid is random:
    nobody has it in a label by chance.
    """
    controller = controller_of(plain)
    if is_stream_job(controller):
        return text_at(controller, "uid")
    if controller and text_at(plain, "kind") != "Pod":
        return ""
    return text_at(plain, "metadata", "labels", pod.LABEL_JOB_UID)


def is_worker(plain: Plain, job: str, job_uid: str, set_uid: str) -> bool:
    """Say whether a pod is a worker of a job: by its name, what controls it, and then its label.

    The set of ``set_uid`` (empty: there is none) says so whatever the labels say. A pod of an
    earlier set of this name, or one that was orphaned, still runs: it counts by its label.
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
    """Say whether a reference is to a StreamJob."""
    return text_at(reference, "kind") == KIND and text_at(reference, "apiVersion").startswith(GROUP)


def owner_text(plain: Plain) -> str:
    """Name what controls an object, for people; empty when nothing does."""
    controller = controller_of(plain)
    return f"{text_at(controller, 'kind')} {text_at(controller, 'name')}".strip()
