"""What the operator may do, and why. A test compares the roles of the chart with these rows.

The operator creates the Roles of the keepers. The API server allows it to grant only rights that
it has itself, so the verbs of a keeper are among these.
"""

from dataclasses import dataclass

from penstock_operator.api import kinds
from penstock_operator.api.kinds import Kind


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource. ``own``: in the operator's own namespace only."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    own: bool = False


def _right(kind: Kind, verbs: str, why: str, *, sub: str = "", own: bool = False) -> Right:
    resource = f"{kind.plural}/{sub}" if sub else kind.plural
    return Right(kind.group, resource, tuple(verbs.split()), why, own)


RIGHTS = (
    _right(kinds.STREAM_JOB, "get list watch patch", "its finalizer, during a deletion that waits"),
    _right(kinds.STREAM_JOB, "patch update", "conditions and figures", sub="status"),
    _right(kinds.STREAM_JOB, "update", "owner references that block deletion", sub="finalizers"),
    _right(
        kinds.STREAM_SNAPSHOT,
        "get list watch create patch delete",
        "its finalizer; periodic savepoints, and their retention",
    ),
    _right(kinds.STREAM_SNAPSHOT, "patch update", "its state and its path", sub="status"),
    _right(kinds.STATEFUL_SET, "get list watch create patch", "the workers"),
    _right(kinds.POD, "get list watch delete", "states of workers; pods of lost nodes"),
    _right(kinds.SERVICE, "get list watch create patch", "names of workers, targets of scrapes"),
    _right(
        kinds.CONFIG_MAP,
        "get list watch create update patch delete",
        "stored specs, -desired, -latest, views of epochs",
    ),
    _right(kinds.SECRET, "get create update", "certificates of a job and their authorities"),
    _right(kinds.ACCOUNT, "get list watch create patch", "the keepers' account"),
    _right(kinds.ROLE, "get list watch create patch", "the keepers' Role"),
    _right(
        kinds.ROLE_BINDING,
        "get list watch create patch",
        "binds the keepers' Role to their account",
    ),
    _right(kinds.BUDGET, "get list watch create patch", "one worker at a time in a drain"),
    _right(kinds.POLICY, "get list watch create patch", "who may reach the workers"),
    _right(
        kinds.LEASE,
        "get list watch create update patch",
        "the leader's Lease of each job, and the operator's",
    ),
    _right(kinds.JOB, "get list watch create", "removes the files of a purged job"),
    _right(kinds.CLAIM, "get list watch create patch", "where checkpoints live"),
    _right(kinds.EVENT, "get list create patch", "reports to people; reads why pods cannot be made"),
    _right(kinds.NAMESPACE, "get", "whether it is being deleted: it takes no new objects then"),
    _right(kinds.SPARK_KUBEFLOW, "get list watch create delete", "a replay"),
    _right(kinds.SPARK_APACHE, "get list watch create delete", "a replay"),
)
