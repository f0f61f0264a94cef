"""The example fraud: which models it reads, which it refuses with file and line, and states that it does not know."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.base.errors import ConfigError
from penstock.graph.entrypoint import resolve

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@pytest.fixture
def fraud(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "fraud", raising=False)
    resolve("fraud:job", "here")
    return sys.modules["fraud"]


def lines_of(fraud: ModuleType) -> list[str]:
    rows = fraud.synthesised()
    return [",".join(fraud.STATES), *(",".join(repr(float(p)) for p in row) for row in rows)]


def test_a_synthesised_model_has_rows_of_sum_1(fraud: ModuleType) -> None:
    assert np.allclose(fraud.synthesised().sum(axis=1), 1)


def test_a_model_is_read_in_any_order_of_its_states(fraud: ModuleType, tmp_path: Path) -> None:
    rows = fraud.synthesised()
    turned = rows[::-1, ::-1]
    text = [",".join(fraud.STATES[::-1]), *(",".join(repr(float(p)) for p in row) for row in turned)]
    (tmp_path / "model.csv").write_text("\n".join(text))
    assert np.array_equal(fraud.read_model(str(tmp_path / "model.csv")), rows)


@pytest.mark.parametrize(
    ("line", "text", "error"),
    [
        (0, "A,B", ":1: the first line must name the states LNL, LNN"),
        (3, "0.5,0.5", ":4: it has 2 probabilities; it must have 18"),
        (3, ",".join(["0.1"] * 18), ":4: the probabilities sum to 1.8, not to 1"),
        (5, ",".join(["2", "-1", *["0"] * 16]), ":6: a probability is not between 0 and 1"),
        (7, ",".join(["x", *["0"] * 17]), ":8: could not convert string to float: 'x'"),
        (18, "", ": it has 17 rows; it must have one for each state"),
    ],
)
def test_a_wrong_model_is_refused(fraud: ModuleType, tmp_path: Path, line: int, text: str, error: str) -> None:
    lines = lines_of(fraud)
    lines[line] = text
    (tmp_path / "model.csv").write_text("\n".join(lines))
    with pytest.raises(ConfigError, match=error):
        fraud.read_model(str(tmp_path / "model.csv"))


def test_a_model_that_is_not_there_is_refused(fraud: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv: cannot be read"):
        fraud.read_model(str(tmp_path / "none.csv"))


def ran(fraud: ModuleType, states: list[str], dead_letters: str = "") -> Any:
    params = {"input": "in", "output": "out", "model": "", "dead_letters": dead_letters, "rate": "0"}
    rows = [{"entity_id": "e", "transaction_id": f"t{n}", "state": state} for n, state in enumerate(states)]
    return ps.run(fraud.job, params, inputs={"transactions": rows}, collect=True)


def test_an_unknown_state_fails_the_job_or_is_a_dead_letter_and_alerts_stay_exact(fraud: ModuleType) -> None:
    rare = ["HHS", "HHL", "HHS", "HHL", "HHS", "HHL"]
    expected = [row["score"] for row in ran(fraud, rare)["alerts"]]
    assert len(expected) == 2
    unknown = [*rare[:3], "XXX", *rare[3:]]
    with pytest.raises(ps.UserCodeError, match="'XXX' is none of the texts of the Enum"):
        ran(fraud, unknown)
    result = ran(fraud, unknown, "dead")
    assert [row["score"] for row in result["alerts"]] == expected
    assert [row["transaction_id"] for row in result["unknown"]] == ["t3"]
