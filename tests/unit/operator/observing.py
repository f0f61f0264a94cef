"""Builds observations for the tests of single rules."""

import json

from penstock.base.values import replace
from penstock.contract.ids import Attempt, Epoch, JobUid, SwapId, Term, Version
from penstock.contract.latest import Desired, Latest
from penstock.contract.schema import Plain
from penstock.contract.streamjob_status import StreamJobStatus
from penstock_operator.api.classes import digest_of
from penstock_operator.api.observed import (
    ClaimView,
    DesiredView,
    JobView,
    LatestView,
    Observed,
    PodView,
    SetView,
)
from penstock_operator.reconcile.accept import target_of
from penstock_operator.reconcile.lifecycle import run_name
from penstock_operator.resources.target import Owner, Target

OWNER = Owner("wc", "apps", "1234-uid")
NOW_S = 1_700_000_000.0


def spec_of(**more: Plain) -> dict[str, Plain]:
    """Make a spec of two workers."""
    return {
        "image": "example/penstock:1",
        "job": {"entrypoint": "jobs:count"},
        "replicas": 2,
        "checkpoint": {"volume": {"claimName": "shared"}},
        **more,
    }


def target_for(spec: dict[str, Plain]) -> Target:
    """Read a spec."""
    return target_of(OWNER, json.dumps(spec, sort_keys=True))


def running(spec: dict[str, Plain], *, wanted: dict[str, Plain] | None = None) -> Observed:
    """Observe a settled job whose workers run ``spec``, while its object has ``wanted``."""
    target = target_for(spec)
    run = run_name(1, 0, target.digest)
    latest = Latest(
        JobUid(OWNER.uid),
        SwapId("s"),
        term=Term(1),
        attempt=Attempt(1),
        version=Version(1),
        settled=Version(1),
        workers=2,
        epoch=Epoch(7),
        max_epoch=Epoch(7),
        run=run,
    )
    return Observed(
        JobView(
            "wc",
            "apps",
            OWNER.uid,
            2,
            wanted or spec,
            StreamJobStatus(),
            spec_text=json.dumps(wanted or spec, sort_keys=True),
        ),
        NOW_S,
        stateful_set=SetView("s", OWNER.uid, "5", 2, 1, digest_of(spec), target.config),
        pods=tuple(PodView(f"wc-worker-{n}", f"p{n}", OWNER.uid, n, ready=True) for n in (0, 1)),
        latest=LatestView("l", "9", latest),
        desired=DesiredView("d", OWNER.uid, "8", Desired(2, run=run), 1, "l"),
        claim=ClaimView(("ReadWriteMany",)),
        configs={target.config: spec},
    )


def down(seen: Observed) -> Observed:
    """Observe the same job when its last pod is gone."""
    assert seen.stateful_set is not None
    return replace(seen, pods=(), stateful_set=replace(seen.stateful_set, replicas=0))
