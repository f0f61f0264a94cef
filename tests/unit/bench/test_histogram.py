from bench import histogram
from penstock.connectors.discard_sink import LATENCY_AT_PREFIX, LATENCY_PREFIX, bucket


def test_percentiles_are_those_of_the_ages_within_a_bucket() -> None:
    ages = list(range(1, 10_001))  # microseconds
    buckets = histogram.merged({bucket(us * 1000): 1} for us in ages)
    found = histogram.figures(buckets)
    assert found["markers"] == 10_000
    for name, exact_us in (
        ("p50_ms", 5000),
        ("p90_ms", 9000),
        ("p99_ms", 9900),
        ("max_ms", 10_000),
    ):
        assert exact_us / 1000 <= found[name] <= exact_us / 1000 * 1.011, name


def test_one_late_marker_in_a_thousand_is_seen_at_the_top_only() -> None:
    found = histogram.figures({1000: 999, 500_000 >> 12 << 12: 1})
    assert found["p99_ms"] < 1.02
    assert found["p99.9_ms"] < 1.02
    assert found["max_ms"] >= 500


def test_a_reported_latency_is_never_below_the_measured_one() -> None:
    for us in (0, 1, 255, 256, 999, 12_345, 1_000_003):
        lower = bucket(us * 1000)
        assert lower <= us <= histogram.upper_end(lower)
        assert bucket((histogram.upper_end(lower) + 1) * 1000) != lower


def test_buckets_are_found_in_totals_by_run_and_by_second() -> None:
    totals = {
        "rows": 9,
        f"{LATENCY_PREFIX}12": 2,
        f"{LATENCY_PREFIX}40": 1,
        f"{LATENCY_AT_PREFIX}77.12": 2,
        f"{LATENCY_AT_PREFIX}78.40": 1,
    }
    assert histogram.in_totals(totals) == {12: 2, 40: 1}
    assert histogram.by_second(totals) == {77: {12: 2}, 78: {40: 1}}
    assert histogram.figures({}) == {}
