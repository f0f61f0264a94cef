"""The experiments of the papers: their pictures, and the jobs that are altered for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from bench import redraw
from bench.altered import Readings, block, delays_of, replicas
from bench.application_inputs import EXAMPLES
from bench.concurrent_jobs import together
from bench.draw import papers, pictures
from penstock.contract.ids import SplitId
from penstock_spark import equipment

NAMES = {
    "rates": ("rates rate=1000000", "rates rate=2000000"),
    "context-switches": ("c batch_rows=1", "c batch_rows=8192"),
    "replicas": ("r name=fraud,replicas=1", "r name=fraud,replicas=16", "r name=other,replicas=2"),
    "jobs": ("jobs jobs=1", "jobs jobs=32"),
    "send-next-if": ("s rate=20000/waits", "s rate=20000/sheds", "s rate=40000/sheds"),
    "backpressure": ("backpressure",),
    "relay": ("relay payload=50,buffer=1Ki", "relay payload=200,buffer=1Mi,batch_rows=4096"),
    "compression": ("compression data=text/none", "compression data=text/auto"),
    "garbage": ("g batch_rows=1/pool", "g batch_rows=8192,step=record/no-pool", "g batch_rows=8192/pool"),
}
FIGURES = {
    "rows_per_s": 2e6, "sink_rows_per_s": 1e6, "p50_ms": 1.0, "p99_ms": 9.0, "switches_per_5s": 7, "gc_share": 0.01,
    "rest_cpu_share": 0.02, "rest_mib": 99.0, "memory_max_mib": 300.0,
}  # fmt: skip


def run(name: str, *, exact: bool = True, **figures: float) -> dict[str, Any]:
    samples = {"source": [[1.0, 0], [2.0, 900], [3.0, 1900]], "counted": [[1.0, 0], [2.0, 800]]}
    return {"name": name, "exact": exact, "results": FIGURES | figures, "hdr": None, "samples": samples}


@pytest.mark.parametrize("scenario", sorted(papers.PICTURES))
def test_each_experiment_has_its_picture(tmp_path: Path, scenario: str) -> None:
    runs = [run(name) for name in NAMES[scenario]] * 2
    record = {"kind": "scenario", "scenario": scenario, "title": "t", "runs": runs}
    assert pictures.draw(record, tmp_path / "p") == [tmp_path / "p.png"]
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_points_are_those_of_exact_runs_with_the_same_other_fields() -> None:
    runs = [run("r name=a,replicas=2", rows_per_s=3.0), run("r name=a,replicas=1"), run("r name=b,replicas=1")]
    runs += [run("r name=a,replicas=2", rows_per_s=5.0), run("r name=a,replicas=4", exact=False)]
    assert papers.points(runs, "replicas", "rows_per_s", 2.0, name="a") == {1.0: [4e6], 2.0: [6.0, 10.0]}


def test_parts_of_a_scenario_are_drawn_together_and_no_others(tmp_path: Path) -> None:
    parts: list[dict[str, Any]] = [{"scenario": "rates", "runs": [{"name": n}]} for n in "ab"]
    assert [each["name"] for each in redraw.joined(parts)["runs"]] == ["a", "b"]
    with pytest.raises(ValueError, match="records of jobs and rates"):
        redraw.joined([*parts, {"scenario": "jobs", "runs": []}])


def test_a_block_of_readings_may_be_repeated(tmp_path: Path) -> None:
    rows = block()
    bits = {name: np.asarray(rows[name]) for name in equipment.BITS}
    assert all(each[0] == each[-1] for each in bits.values())
    reader = Readings(2 * len(rows) + 5, tmp_path / "gate").open(
        ps.SplitState(SplitId("machine"), str(2 * len(rows) + 5), 0)
    )
    assert reader.read(10) is None, "the gate is not there"
    assert not reader.state().finished
    (tmp_path / "gate").touch()
    times: list[int] = []
    while (read := reader.read(1 << 17)) is not None:
        assert read.offset == len(times)
        times += read.batch["ts"].to_pylist()
    assert reader.state().finished
    assert len(times) == 2 * len(rows) + 5
    assert set(np.diff(times)) == {10_000_000}
    assert delays_of(rows) > 10


def test_replicas_are_those_of_every_step() -> None:
    params = {"example": "pipeline", "replicas": 3, "rows": 1, "splits": 1, "batch_rows": 1, "between": "forward"}
    made = replicas(ps.Parameters({name: str(value) for name, value in (params | {"output": ""}).items()}))
    assert [step.parallelism for step in made.draft.steps] == [3, 3, 3]
    assert (EXAMPLES / "pipeline.yaml").exists()


def test_the_rate_of_all_jobs_is_that_while_all_of_them_read() -> None:
    class Told:
        def __init__(self, *read: tuple[float, float]) -> None:
            self.read, self.rows = list(read), 100

    early = Told((0, 0), (1, 10), (2, 20), (3, 30), (4, 100), (5, 100))
    late = Told((0, 0), (1, 0), (2, 40), (3, 60), (4, 80), (5, 100))
    assert together([early, late])["rows_per_s"] == 30  # type: ignore[list-item]
    assert together([Told((0, 0), (1, 100)), late]) == {}  # type: ignore[list-item]
