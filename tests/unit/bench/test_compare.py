from itertools import chain

import pytest

from bench import inputs
from bench.compare import notes
from bench.oracle import words_spec
from bench.peer import load, names
from bench.peers.programs.task import merged
from bench.scenario import Scenario
from bench.turns import rates, ratios, window
from penstock.connectors.generator import WordBlock, WordSource

SMALL = Scenario("s", "t", workers=2, keys=50, payload=4, rows=70_000)


def test_every_engine_gets_the_rows_that_the_generator_gives() -> None:
    spec = words_spec(SMALL)
    source, block = WordSource(spec), WordBlock(spec)
    for split, state in enumerate(source.splits()):
        reader = source.open(state)
        given: list[str] = []
        while (read := reader.read(8192)) is not None:
            given += read.batch.column("word").to_pylist()
        rows = inputs.rows_of(SMALL, block, split)
        assert list(chain.from_iterable(part.to_pylist() for part in rows)) == given


def test_a_wrong_count_of_one_word_is_found() -> None:
    wanted = inputs.expected_counts(SMALL)
    assert sum(wanted.values()) == 140_000
    assert inputs.differences(wanted, dict(wanted)) == []
    word = min(wanted)
    (told,) = inputs.differences(wanted, {**wanted, word: wanted[word] - 1})
    assert told.startswith(f"1 of {len(wanted)} words")
    assert inputs.differences(wanted, {**wanted, "extra": 1})


def test_the_first_third_is_warm_up_and_the_idle_end_does_not_count() -> None:
    slow_then_fast = [(0.0, 0.0), (1.0, 10.0), (3.0, 2010.0), (9.0, 2010.0)]
    assert rates(slow_then_fast)["rows_per_s"] == pytest.approx(1000.0)
    assert rates([(0.0, 5.0)])["rows_per_s"] == 0.0
    assert rates([])["rows_per_s"] == 0.0


def test_a_cold_batch_longer_than_a_third_is_not_in_the_window() -> None:
    batches = [(0.0, 0.0), (5.0, 400.0), (7.0, 800.0), (9.0, 1200.0)]
    assert window(batches) == batches[1:]
    assert rates(batches)["rows_per_s"] == pytest.approx(200.0)


def test_an_engine_that_counts_everything_at_its_end_has_no_rate() -> None:
    assert rates([(0.0, 0.0), (4.6, 2400.0), (4.6001, 2400.0)])["rows_per_s"] == 0.0


def test_a_stall_at_the_end_is_shown_and_is_not_in_the_best_third() -> None:
    stalled = [(float(s), 100.0 * s) for s in range(13)] + [(20.0, 1201.0)]
    told = rates(stalled)
    assert told["rows_per_s"] == pytest.approx((1201 - 700) / 13, abs=0.1)
    assert told["best_rows_per_s"] == pytest.approx(100.0)
    assert told["longest_step_s"] == 8.0
    assert told["longest_step_share"] == pytest.approx(8 / 13, abs=0.001)
    assert "longest time from one mark" in notes([{"name": "slow", "exact": True, "results": told}])[0]


def test_only_exact_undisturbed_turns_make_a_ratio() -> None:
    def run(name: str, turn: int, rate: float, exact: bool = True, others: float = 0.02) -> dict[str, object]:
        results = {"rows_per_s": rate, "others_share": others}
        return {"name": name, "turn": turn, "exact": exact, "results": results}

    runs = [run("penstock", n, 80.0 + n) for n in range(3)]
    runs += [run("other", n, (80.0 + n) / 8) for n in range(3)]
    runs += [run("penstock", 3, 1.0), run("other", 3, 9.0, exact=False)]
    runs += [run("penstock", 4, 1.0), run("other", 4, 9.0, others=0.3)]
    found = next(v for v in ratios(runs) if v["figure"] == "rows_per_s")
    assert found["pairs"] == 3
    assert found["ratio"] == pytest.approx(8.0)


def test_marks_of_processes_add_up() -> None:
    one, two = [(1.0, 10), (3.0, 30)], [(2.0, 5), (4.0, 6)]
    assert merged([one, two]) == [(1.0, 10), (2.0, 15), (3.0, 35), (4.0, 36)]


@pytest.mark.parametrize("name", names())
def test_every_engine_says_what_it_is_and_how_it_was_set_up(name: str) -> None:
    engine = load(name)
    assert engine.set_up.strip()
    assert all("==" in package for package in engine.packages)
    assert engine.rows % 2 == 0
