"""The ConfigMaps and the Lease through which the operator and the workers coordinate."""

import json

from penstock.base.errors import PeerError
from penstock.contract import pod
from penstock.contract.codec import parsed
from penstock.contract.ids import Epoch, JobUid, SwapId
from penstock.contract.latest import Desired, Latest, encode_desired, encode_latest
from penstock.contract.schema import API_VERSION, Plain
from penstock.contract.streamjob import KIND
from penstock_operator.api import names
from penstock_operator.api.plain import Object, object_at
from penstock_operator.resources.target import Owner, Target, framed


def config(target: Target) -> Object:
    """Build the ConfigMap with the accepted job. Its pods never read a newer one."""
    owner = target.owner
    job: Object = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": owner.name, "namespace": owner.namespace, "uid": owner.uid},
        "spec": target.plain,
    }
    frame = framed("v1", "ConfigMap", owner, target.config, component=names.STATE)
    text = json.dumps(job, sort_keys=True, separators=(",", ":"))
    return {**frame, "data": {pod.JOB_FILE.rpartition("/")[2]: text}}


def config_spec(config_map: Plain) -> Plain:
    """Read the spec from a ConfigMap of :func:`config`; None for any other ConfigMap."""
    text = object_at(config_map, "data").get(pod.JOB_FILE.rpartition("/")[2])
    if not isinstance(text, str):
        return None
    try:
        return object_at(parsed(text), "spec") or None
    except PeerError:
        return None


def desired(owner: Owner, wanted: Desired, fence: int, latest_uid: str) -> Object:
    """Build ``{job}-desired``, with the annotations that order its writes."""
    marks = {names.ANNOTATION_FENCE: str(fence), names.ANNOTATION_LATEST: latest_uid}
    name = pod.desired_name(owner.name)
    frame = framed("v1", "ConfigMap", owner, name, component=names.STATE, annotations=marks)
    return {**frame, "data": {pod.RECORD: encode_desired(wanted).decode()}}


def first_latest(owner: Owner) -> Object:
    """Build the first ``{job}-ckpt-latest``. It is created once and never applied.

    Its swap id is derived from the job's uid, so no swap of a worker has it. It has no owner
    reference, because checkpoints outlive the job.
    """
    name = pod.latest_name(owner.name)
    frame = framed("v1", "ConfigMap", owner, name, component=names.STATE, owned=False)
    first = Latest(JobUid(owner.uid), SwapId(f"first-{owner.uid}"))
    return {**frame, "data": {pod.RECORD: encode_latest(first).decode()}}


def archive(owner: Owner, found: Plain, uid: str) -> Object:
    """Copy the -latest of an earlier job of this name, under a name with that job's uid."""
    name = names.archive_name(owner.name, uid)
    frame = framed("v1", "ConfigMap", owner, name, component=names.STATE, owned=False)
    metadata = object_at(frame, "metadata")
    labels = {**object_at(metadata, "labels"), pod.LABEL_JOB_UID: uid}
    return {**frame, "metadata": {**metadata, "labels": labels}, "data": object_at(found, "data")}


def empty_status(owner: Owner) -> Object:
    """Build the empty ``{job}-status``. The leader fills it: a keeper may not create objects."""
    name = pod.status_name(owner.name)
    return framed("v1", "ConfigMap", owner, name, component=names.STATE)


def leader_lease(owner: Owner) -> Object:
    """Build the Lease for the leader's election, without a holder."""
    name = pod.lease_name(owner.name)
    frame = framed("coordination.k8s.io/v1", "Lease", owner, name, component=names.STATE)
    return {**frame, "spec": {}}


def epoch_of(job: str, name: str) -> Epoch | None:
    """Read the epoch from the name of an epoch view; None for any other name."""
    prefix = pod.epoch_name(job, 0)[:-1]
    number = name.removeprefix(prefix)
    return Epoch(int(number)) if number != name and number.isdecimal() else None
