"""Rates of what was seen from outside, and the oracle of counts that were read back."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench import peer
from bench.connectors import engines
from bench.connectors.__main__ import verdicts
from bench.connectors.kafka import taken
from bench.connectors.marks import Mark, figures, window
from bench.connectors.topics import differences

COMMITS = [Mark(float(2 * n), 200 * n, 1.0 * n, 0.5 * n) for n in range(1, 7)]


def test_a_start_is_not_measured_and_neither_is_the_last_checkpoint() -> None:
    slow, cut_short = Mark(1.0, 1, 0.9, 0.4), Mark(12.5, 1210, 6.1, 3.0)
    assert window([slow, *COMMITS, cut_short]) == COMMITS[2:]
    found = figures([slow, *COMMITS, cut_short])
    assert found["rows_per_s"] == 100
    assert found["rows_per_core_s"] == 200
    assert (found["engine_cores"], found["server_cores"]) == (0.5, 0.25)
    assert found["server_cpu_ns_per_row"] == pytest.approx(2.5e6)


def test_too_few_marks_have_no_rate() -> None:
    assert figures([]) == figures(COMMITS[:1]) == {}
    assert figures([Mark(0.0, 1, 0.0, 0.0), Mark(0.5, 9, 0.1, 0.1)]) == {}
    assert len(window(COMMITS[:2])) == 0
    assert window(COMMITS[:3]) == COMMITS[1:3]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([("a", 1), ("b", 1), ("a", 2)], ""),
        ([("a", 1), ("a", 2)], "another number of records: b 0, not 1"),
        ([("a", 1), ("b", 1), ("a", 2), ("a", 2)], "a 3, not 2"),
        ([("a", 2), ("b", 1), ("a", 1)], "not in their place, the first one of a"),
        ([("a", 1), ("b", 2), ("a", 2)], "the first one of b"),
        ([("a", 1), ("b", 1), ("c", 1)], "a word that no input has"),
    ],
)
def test_counts_that_are_lost_repeated_or_out_of_order_are_found(rows: list[tuple[str, int]], wrong: str) -> None:
    words, counts = pa.array([word for word, _ in rows]), np.array([count for _, count in rows], np.int64)
    found = differences({"a": 2, "b": 1}, words, counts)
    assert (wrong in found[0]) if wrong else found == []


def test_rows_at_the_sink_are_those_of_the_last_whole_status(tmp_path: Path) -> None:
    file = tmp_path / "statuses"
    lines = [json.dumps({"steps": [{"name": "words", "rows_in": 9}, {"name": "end", "rows_in": n}]}) for n in (3, 7)]
    file.write_text("")
    assert taken(tmp_path) == 0
    file.write_text(f"{lines[0]}\n{lines[1]}")
    assert taken(tmp_path) == 3
    file.write_text(f"{lines[0]}\n{lines[1]}\n")
    assert taken(tmp_path) == 7


def test_only_exact_undisturbed_turns_are_compared() -> None:
    def run(name: str, turn: int, rate: float, exact: bool = True, others: float = 0.0) -> dict[str, object]:
        results = {"rows_per_s": rate, "rows_per_core_s": rate, "others_share": others}
        return {"name": f"kafka to kafka {name}", "turn": turn, "exact": exact, "results": results}

    runs = [run("penstock", n, 30.0) for n in range(3)] + [run("other", 0, 10.0)]
    runs += [run("other", 1, 1.0, exact=False), run("other", 2, 1.0, others=0.3)]
    first = verdicts(runs)[0]
    assert (first["base"], first["other"], first["pairs"]) == ("kafka to kafka other", "kafka to kafka penstock", 1)
    assert first["ratio"] == pytest.approx(3.0)


def test_every_engine_between_topics_says_how_it_is_set_up() -> None:
    for name in peer.names(engines.FOLDER):
        engine = peer.load(name, engines.FOLDER)
        assert engine.rows > 0
        assert all((engine.set_up.strip(), engine.checkpoints, engine.emits)), name
        file = engine.program if engine.java else f"{engine.program}.py"
        assert (peer.FOLDER / "programs" / file).exists()
