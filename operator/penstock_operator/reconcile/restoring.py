"""Restores, once per nonce: those that a spec asks for, and those of the upgrade mode Stateless.

The leader keeps one nonce, that of its last restore. An upgrade without state makes one up, which
ends with the spec's own: what the spec asked for before is not done again after it.
"""

from penstock.contract.latest import Latest, Restore
from penstock.contract.streamjob import Unpublished, UpgradeMode
from penstock_operator.reconcile.accept import STATELESS, Accepted, nonce_of
from penstock_operator.resources.target import Target


def restores(target: Target, latest: Latest) -> bool:
    """Say whether the spec asks for a restore that was not carried out yet."""
    wanted = target.spec.restore
    return wanted is not None and wanted.nonce != nonce_of(latest)


def restore_of(accepted: Accepted, target: Target, latest: Latest) -> Restore | None:
    """Return what the spec asks for; None when it is done, or is not found."""
    wanted = target.spec.restore
    if wanted is None or not restores(target, latest):
        return None
    if accepted.restore_path is None and not (wanted.empty or wanted.newest):
        return None
    return Restore(
        wanted.nonce,
        path=accepted.restore_path,
        allow_output_replay=wanted.allow_output_replay,
        drop_unpublished=wanted.unpublished is Unpublished.DROP,
        empty=wanted.empty is True,
        drop_state=wanted.dropped,
    )


def fresh_start(target: Target, latest: Latest, run: str) -> Restore | None:
    """Return the restore of an upgrade in the mode Stateless; None where no state would go."""
    if target.spec.upgrade.mode is not UpgradeMode.STATELESS or latest.max_epoch == 0:
        return None
    wanted = target.spec.restore
    # One of the newest checkpoint only says what is given up of it, and here that is everything.
    done = wanted.nonce if wanted is not None and wanted.newest else nonce_of(latest)
    return Restore(
        f"{STATELESS}{run} {done}",
        allow_output_replay=True,
        drop_unpublished=wanted is not None and wanted.unpublished is Unpublished.DROP,
        empty=True,
    )
