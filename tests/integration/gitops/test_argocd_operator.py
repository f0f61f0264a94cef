"""Argo CD's judgement of all that an operator writes, in simulated lives with faults."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.contract.streamjob_status import REASONS, ConditionType, status_plain
from penstock_operator.api.observed import Observed
from penstock_operator.reconcile.actions import Decision
from penstock_operator.reconcile.decide import decide
from sim.operator_world.operator_invariants import ViolationError
from sim.operator_world.world import World
from tests.integration.gitops.lua import health

NOW = "2026-11-21T12:00:00Z"
SEEDS = range(1, 7)
STEPS = 150


def written(seed: int) -> list[Any]:
    """Return every StreamJob that the operator writes the status of, in one simulated life."""
    objects: list[Any] = []

    def watched(seen: Observed) -> Decision:
        found = decide(seen)
        if found.status is not None:
            view = seen.job
            metadata: dict[str, Any] = {"name": view.name, "generation": view.generation}
            if view.deleting_since is not None:
                metadata["deletionTimestamp"] = NOW
            plain = {"metadata": metadata, "spec": view.spec, "status": status_plain(found.status)}
            objects.append(plain)
        return found

    with suppress(ViolationError):  # tests/sim checks whether a life is correct
        World(seed, decide=watched).run(STEPS)
    return objects


def expected(plain: Any) -> str:
    """Judge as a person would, from the conditions alone."""
    conditions = {c["type"]: (c["status"], c["reason"]) for c in plain["status"]["conditions"]}
    if "deletionTimestamp" in plain["metadata"]:
        return "Progressing"
    if conditions["Accepted"][0] == "False" or conditions["Stalled"][0] == "True":
        return "Degraded"
    if conditions["Ready"][1] in ("Failed", "CheckpointStale", "CheckpointFailing"):
        return "Degraded"
    if conditions["Ready"][1] == "Suspended":
        return "Healthy" if plain["spec"].get("suspend") else "Progressing"
    well = conditions["Ready"][0] == "True" or conditions["Ready"][1] == "Finished"
    return "Healthy" if well else "Progressing"


def test_reasons_are_those_that_the_interface_names() -> None:
    given = {
        (condition["type"], condition["reason"]) for plain in written(4) for condition in plain["status"]["conditions"]
    }
    assert given <= {(str(k), str(r)) for k, reasons in REASONS.items() for r in reasons}
    # spec.snapshots, schemes, or spec.rebalanceNonce ask for them
    sometimes = {ConditionType.SNAPSHOTS_TAKEN, ConditionType.PARTITIONED, ConditionType.BALANCED}
    always = set(REASONS) - sometimes
    assert {kind for kind, _ in given} == set(map(str, always))


def test_health_of_all_that_an_operator_writes(glua: Path, tmp_path: Path) -> None:
    objects = [plain for seed in SEEDS for plain in written(seed)]
    found = health(glua, tmp_path, objects)
    for plain, judged in zip(objects, found, strict=True):
        assert judged["status"] == expected(plain), plain
        assert judged["message"], plain
    states = {plain["status"]["state"] for plain in objects}
    assert len(states) >= 6, "these lives show too few states: choose other seeds"
    assert {judged["status"] for judged in found} == {"Healthy", "Progressing", "Degraded"}
