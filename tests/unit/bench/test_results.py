from typing import Any

import pytest

from bench import results
from bench.samples import Event, Samples
from bench.scenario import Disturbance, Scenario
from penstock.connectors.discard_sink import (
    LATENCY_AT_PREFIX,
    LATENCY_PREFIX,
    ROWS_AT_PREFIX,
)

MIB = 2**20
BEGUN = 500.0  # of the monotonic clock


def status(at: float, sent: int, counted: int, checkpoint: dict[str, Any] | None = None) -> Any:
    words = {"name": "words", "rows_out": sent, "queue_bytes": 0}
    counts = {"name": "counts", "rows_in": counted, "queue_bytes": 0}
    return {"at": at, "steps": [words, counts], "checkpoint": checkpoint, "workers": []}


def samples_of(rows_each_tick: list[int], first_s: float = 2.0) -> Samples:
    first = round((BEGUN + first_s) * 10)
    totals = {f"{ROWS_AT_PREFIX}{first + i}": n for i, n in enumerate(rows_each_tick) if n}
    return Samples(begun=BEGUN, totals=totals, seconds=99.0)


def test_the_rate_is_measured_after_the_warm_up() -> None:
    samples = samples_of([10] * 20 + [100] * 30)
    found = results.figures(Scenario("s", "t", rows=1, warmup_s=2.0), samples)
    assert found["rows_per_s"] == pytest.approx(1000.0)
    assert found["measured_s"] == pytest.approx(2.9)


def test_cpu_and_wire_bytes_per_row_are_of_the_same_time() -> None:
    samples = samples_of([1000] * 41)
    # Counters come once a second and late: rows are counted by the ticks of the sink.
    samples.statuses = [status(float(n), 0, 7) for n in range(9)]
    samples.cpu = [(float(n), 0.5 * n) for n in range(9)]
    samples.wire = [(float(n), 400_000.0 * n) for n in range(9)]
    found = results.figures(Scenario("s", "t", rows=1, warmup_s=1.0), samples)
    assert found["cpu_ns_per_row"] == pytest.approx(50_000.0)
    assert found["wire_bytes_per_row"] == pytest.approx(40.0)


@pytest.mark.parametrize(("taken", "quiet"), [(0.1, 1), (0.011, 1), (0.009, 3)])
def test_the_latency_of_quiet_seconds_is_reported_in_addition(taken: float, quiet: int) -> None:
    samples = samples_of([1000] * 41)
    late = {f"{LATENCY_AT_PREFIX}{502 + n}.{age}": 100 for n, age in enumerate((1024, 4096, 8192))}
    samples.totals |= late | {f"{LATENCY_PREFIX}{age}": 100 for age in (1024, 4096, 8192)}
    samples.begun = 499.6  # the host takes something in second 503 of the clock
    samples.stolen = [(0.0, 7.0), (3.4, 7.0), (4.4, 7.0 + taken), (9.0, 7.0 + taken)]
    found = results.figures(Scenario("s", "t", rows=1, rate=1000, warmup_s=0.0), samples)
    assert found["quiet_s"] == quiet, "nor is the second behind a quiet one"
    assert found["quiet_p99_ms"] == pytest.approx(1.0 if quiet == 1 else found["p99_ms"], abs=0.1)
    assert found["stolen_share"] == pytest.approx(taken / found["measured_s"], abs=1e-3)


def test_a_machine_without_a_host_is_quiet_all_the_time() -> None:
    samples = samples_of([1000] * 41)
    samples.totals |= {f"{LATENCY_AT_PREFIX}502.1024": 5, f"{LATENCY_PREFIX}1024": 5}
    samples.stolen = [(0.0, 0.0), (9.0, 0.0)]
    found = results.figures(Scenario("s", "t", rows=1, rate=1000), samples)
    assert found["quiet_p50_ms"] == found["p50_ms"]


def test_a_checkpoint_is_counted_once_with_its_newest_size() -> None:
    first = {"epoch": 1, "bytes": 0, "duration_s": 0.0}
    told = {"epoch": 1, "bytes": 3 * MIB, "duration_s": 0.2}
    samples = samples_of([1])
    samples.statuses = [status(1.0, 0, 0, first), status(1.5, 0, 0, told), status(2.0, 0, 0, told)]
    found = results.figures(Scenario("s", "t", rows=1), samples)
    assert (found["epochs"], found["checkpoint_mib"], found["checkpoint_s"]) == (1, 3.0, 0.2)
    assert samples.epochs()[0]["at"] == 1.0


def seen_at(*times: float, duration_s: float = 0.1) -> list[Any]:
    told = [{"epoch": n, "bytes": 1, "duration_s": duration_s} for n in range(len(times))]
    return [status(at, 0, 0, epoch) for at, epoch in zip(times, told, strict=True)]


def test_the_cost_of_checkpoints_compares_with_seconds_without_one() -> None:
    calm, busy, tail = [100] * 80, [50] * 20, [100] * 25
    samples = samples_of((calm + busy) * 3 + tail)  # begins at 2 s; busy from 10 to 12 s, ...
    samples.statuses = seen_at(12.9, 22.9, 32.9, duration_s=1.5)  # late, as far as may be
    scenario = Scenario("s", "t", rows=1, warmup_s=0.0)
    assert results.figures(scenario, samples)["checkpoint_cost_share"] == pytest.approx(0.1)
    paced = Scenario("s", "t", rate=1000, warmup_s=0.0)
    assert "checkpoint_cost_share" not in results.figures(paced, samples)
    samples.statuses = seen_at(11.0)
    assert "checkpoint_cost_share" not in results.figures(scenario, samples)


def test_a_stall_reports_rows_and_the_growth_of_memory() -> None:
    scenario = Scenario("s", "t", rows=1, warmup_s=0.0, stall_after=10.0, stall_for=60.0)
    samples = samples_of([5])
    sent = [min(n, 15) * 100 for n in range(90)]
    samples.statuses = [status(float(n), sent[n], 100 * min(n, 10)) for n in range(90)]
    samples.memory = [(float(n), (100 + (47 if n > 20 else 0)) * MIB) for n in range(90)]
    found = results.figures(scenario, samples)
    assert found["stalled_rows_per_s"] == 0.0
    assert found["stalled_source_rows_per_s"] == 0.0
    assert found["memory_growth_mib"] == 47.0


def test_each_kill_has_its_recovery_and_a_missing_one_is_reported() -> None:
    ticks = [100] * 50 + [0] * 30 + [100] * 40 + [0] * 60
    samples = samples_of(ticks, first_s=0.0)
    samples.events = [Event(5.0, "kill"), Event(12.0, "kill-leader")]
    kills = (Disturbance("kill", 5.0), Disturbance("kill-leader", 12.0))
    scenario = Scenario("s", "t", rate=1000, seconds=18.0, disturb=kills)
    back, never = results.recoveries(scenario, samples)
    assert back == pytest.approx(3.0)
    assert never is None
    found = results.disturbed(scenario, samples)
    assert (found["kills"], found["not_back"]) == (2, 1)
    assert found["recovery_p95_s"] == 3.0


def test_rescales_are_reported_without_kills() -> None:
    samples = samples_of([100] * 50 + [0] * 3 + [100] * 60, first_s=0.0)
    samples.events = [Event(5.0, "rescale")]
    scenario = Scenario("s", "t", rate=1000, seconds=11.0, disturb=(Disturbance("rescale", 5.0),))
    found = results.disturbed(scenario, samples)
    assert found["rescales"] == 1
    assert found["silence_at_rescale_s"] == pytest.approx(0.3, abs=0.11)
    assert "kills" not in found


def test_latency_comes_from_the_buckets_of_all_sinks() -> None:
    samples = samples_of([1])
    samples.totals |= {f"{LATENCY_PREFIX}1000": 99, f"{LATENCY_PREFIX}200000": 1}
    found = results.figures(Scenario("s", "t", rows=1), samples)
    assert found["markers"] == 100
    assert 1.0 <= found["p99_ms"] < 1.01
    assert 200.0 <= found["max_ms"] < 202.0


def test_a_slow_step_reports_the_times_of_epochs_and_rescales() -> None:
    samples = samples_of([10] * 50)
    told = [{"epoch": n, "bytes": 1, "duration_s": took} for n, took in enumerate((0.4, 0.4, 1.2))]
    samples.statuses = [status(3.0 + n, 0, 0, epoch) for n, epoch in enumerate(told)]
    samples.events = [Event(3.0, "rescale to 3", "done (2.50 s from request to settled)")]
    found = results.figures(Scenario("s", "t", rows=1, kind="slow"), samples)
    assert found["epoch_p50_s"] == 0.4
    assert found["epoch_p99_s"] == pytest.approx(1.2, rel=0.1)
    assert found["rescale_max_s"] == 2.5
