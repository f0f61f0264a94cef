from bench import bare
from bench.scenario import Scenario


def test_a_bare_exchange_counts_every_word_and_tells_its_rate() -> None:
    scenario = Scenario("s", "t", keys=50, payload=40, rows=400_000)
    found = bare.measure(scenario)  # raises when a count is wrong
    assert set(found) == {"rows_per_s", "cpu_ns_per_row"}
    assert min(found.values()) > 0


def test_at_a_fixed_rate_it_tells_the_ages_of_rows() -> None:
    scenario = Scenario("s", "t", keys=50, rate=20_000, seconds=3.0, warmup_s=1.0)
    found = bare.measure(scenario)
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]
    assert found["markers"] > 50


def test_one_worker_has_nobody_to_exchange_with() -> None:
    assert bare.applies(Scenario("s", "t", bare=True, rows=1))
    assert not bare.applies(Scenario("s", "t", bare=True, rows=1, workers=1))
    assert not bare.applies(Scenario("s", "t", rows=1))


def test_the_limit_is_the_highest_rate_that_was_measured() -> None:
    runs = [
        {"rows_per_s": 5.0, "cpu_ns_per_row": 9.0, "p50_ms": 1.0, "markers": 3.0},
        {"rows_per_s": 4.0, "cpu_ns_per_row": 8.0, "p50_ms": 2.0, "markers": 4.0},
    ]
    assert bare.best(runs) == {
        "bare_rows_per_s": 5.0,
        "bare_cpu_ns_per_row": 8.0,
        "bare_p50_ms": 1.0,
    }
