"""What the status says of a replay before its operator says anything: the schema wants a word."""

from dataclasses import replace

from penstock.contract.fields import Plain
from penstock.contract.streamjob_status_fields import read_status, status_plain
from penstock_operator.api.observed import SparkView
from penstock_operator.api.plain import object_at
from penstock_operator.reconcile.decide import decide
from penstock_operator.reconcile.decision import Create
from penstock_operator.reconcile.replay import replay_name
from tests.unit.operator.observing import running, spec_of, target_for

REPLAY: Plain = {"dataset": "/data/lines", "image": "example/spark:1"}


def test_a_replay_that_nobody_has_looked_at_is_pending() -> None:
    spec = spec_of(replay=REPLAY)
    seen = replace(running(spec), spark_installed=True)
    name = replay_name(target_for(spec))
    for spark, state in (
        (None, "Pending"),
        (SparkView(name, ""), "Pending"),
        (SparkView(name, "RUNNING"), "RUNNING"),
    ):
        status = decide(replace(seen, spark=spark)).status
        assert status is not None
        assert status.spark_application is not None
        assert status.spark_application.state == state
        assert read_status(status_plain(status)) == status


def test_a_replay_asks_for_no_number_of_executors() -> None:
    """A driver alone does it; the operator of SparkApplications refuses the number 0."""
    spec = spec_of(replay=REPLAY)
    seen = replace(running(spec), spark_installed=True)
    made = [a.manifest for a in decide(seen).actions if isinstance(a, Create)]
    application = next(m for m in made if m["kind"] == "SparkApplication")
    assert "instances" not in object_at(application, "spec", "executor")
    assert object_at(application, "spec", "driver")["kubernetesMaster"] == "local[2]"
