"""Every way to deal rows out, union, user functions per batch and record, several key columns with
nulls, windows and dead letters in one job: exact through a rescale and a killed engine.
"""

import shutil
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration import shapes_job as shapes
from tests.integration.engine_rig import Rig

ROWS = 1_500
FILES = {"first": 3, "second": 2}
START = datetime(2026, 1, 1)  # noqa: DTZ001  as Arrow gives times without a zone
WORDS = ("", "alpha", "beta", "gamma", None)
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {{name: shapes}}
spec:
  job:
    entrypoint: shapes_job:job
    parameters: {{input: {folder}/in, output: {folder}/out, rate: "300"}}
"""
Row = dict[str, Any]
TEXTS = (pa.dictionary(pa.int32(), pa.string()), pa.large_string(), pa.string())


def row(number: int) -> Row:
    return {
        "id": number,
        "word": WORDS[number % len(WORDS)],
        "flag": (True, False, None)[number // 5 % 3],
        "day": None if number % 7 == 0 else START + timedelta(days=number % 4),
        "at": START + timedelta(seconds=number % ROWS),
    }


def make_input(folder: Path) -> dict[tuple[str, str], list[Row]]:
    """Write the files, each with another kind of text; return rows by source and partition."""
    made, start = {}, 0
    for source, files in FILES.items():
        (folder / source).mkdir(parents=True)
        for file in range(files):
            rows = [row(start + n) for n in range(ROWS)]
            start += ROWS
            kinds = [(n, pa.type_for_alias(t)) for n, t in shapes.COLUMNS.items() if n != "word"]
            schema = pa.schema([kinds[0], ("word", TEXTS[file % len(TEXTS)]), *kinds[1:]])
            table = pa.Table.from_pylist(rows, schema)
            pq.write_table(table, folder / source / f"part-{file}.parquet", row_group_size=500)
            made[source, f"part-{file}.parquet"] = rows
    return made


def written(folder: Path) -> list[Row]:
    """Return the rows of an output by file name, then row."""
    found: list[Row] = []
    for file in sorted(folder.glob("*.parquet")):
        found += pq.read_table(file).to_pylist()
    return found


def by_key(rows: list[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for one in rows:
        groups[shapes.key_of(one)].append(one)
    return groups


Ran = tuple[Path, dict[tuple[str, str], list[Row]]]


def run(folder: Path) -> Ran:
    """Run the job through a rescale, a kill and another rescale."""
    made = make_input(folder / "in")
    shutil.copy(Path(shapes.__file__), folder / "shapes_job.py")
    (folder / "storage").mkdir()
    (folder / "job.yaml").write_text(JOB.format(folder=folder))
    with Rig(folder / "job.yaml", folder) as rig:
        rig.spawn(0, 1)
        rig.begin()
        rig.checkpoint()
        rig.spawn(2)
        rig.rescale(3)
        rig.lose(1)
        rig.rescale(2)
        rig.finish()
    return folder / "out", made


def sound(ran: Ran) -> list[Row]:
    return [r for rows in ran[1].values() for r in rows if r["id"] % shapes.POISON]


def check_rows_that_a_function_refuses_are_dead_letters_with_their_place(ran: Ran) -> None:
    expected = Counter(
        (r["id"], source, partition, offset, f"ValueError: id {r['id']}")
        for (source, partition), rows in ran[1].items()
        for offset, r in enumerate(rows)
        if r["id"] % shapes.POISON == 0
    )
    fields = ("id", "error_source", "error_partition", "error_offset", "error")
    assert Counter(tuple(r[f] for f in fields) for r in written(ran[0] / "letters")) == expected


def check_broadcast_gives_every_row_to_every_task(ran: Ran) -> None:
    found = Counter(r["id"] for r in written(ran[0] / "copies"))
    assert found == Counter({r["id"]: shapes.COPIES for r in sound(ran)})
    same = {r["id"]: r for r in written(ran[0] / "copies")}
    assert [same[r["id"]] for r in sound(ran)] == sound(ran), "values, nulls and types survive"


def check_round_robin_gives_every_row_to_one_task(ran: Ran) -> None:
    found = Counter(r["id"] for r in written(ran[0] / "odd"))
    assert found == Counter(r["id"] for r in sound(ran) if r["id"] % 2)


def check_a_partitioner_of_ones_own_places_every_row(ran: Ran) -> None:
    found = Counter((r["id"], r["nth"]) for r in written(ran[0] / "twice"))
    assert found == Counter((r["id"], nth) for r in sound(ran) for nth in range(2))
    for file in (ran[0] / "twice").glob("*.parquet"):
        places = {n % shapes.PLACES for n in pq.read_table(file)["id"].to_pylist()}
        assert len(places) == 1, f"{file.name} is of one task"


def check_state_of_a_key_goes_through_every_row_in_order(ran: Ran) -> None:
    expected = {key: len(rows) for key, rows in by_key(sound(ran)).items()}
    last: dict[str, Row] = {}
    for one in written(ran[0] / "chain"):
        before = last.get(one["key"])
        assert one["nth"] == (before["nth"] if before else 0) + 1
        assert one["before"] == (str(before["id"]) if before else None)
        last[one["key"]] = one
    assert {key: one["nth"] for key, one in last.items()} == expected


def check_a_batch_function_keeps_state_for_each_key(ran: Ran) -> None:
    keys = {r["id"]: shapes.key_of(r) for r in sound(ran)}
    sums: Counter[str] = Counter()
    for one in written(ran[0] / "sums"):
        sums[keys[one["id"]]] += one["id"]
        assert one["sum"] == sums[keys[one["id"]]]
    assert sums == Counter({k: sum(r["id"] for r in v) for k, v in by_key(sound(ran)).items()})


def check_built_in_aggregates_over_several_key_columns_with_nulls(ran: Ran) -> None:
    found: dict[str, list[Row]] = by_key(written(ran[0] / "totals"))
    expected = by_key(sound(ran))
    assert found.keys() == expected.keys()
    for key, rows in expected.items():
        end, ids = found[key][-1], [r["id"] for r in rows]
        assert [r["n"] for r in found[key]] == list(range(1, len(rows) + 1))
        assert Counter(r["newest"] for r in found[key]) == Counter(ids)
        assert (end["total"], end["days"]) == (sum(ids), sum(r["day"] is not None for r in rows))
        assert (end["low"], end["high"]) == (min(r["at"] for r in rows), max(r["at"] for r in rows))
        assert end["any_flag"] == rows[0]["flag"]
        assert end["mean"] == pytest.approx(sum(ids) / len(ids))


def check_windows_of_event_time_behind_a_union(ran: Ran) -> None:
    expected: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    for r in sound(ran):
        minute = r["at"].replace(second=0)
        expected[r["word"], minute].append(r["id"])
    found = Counter((r["word"], r["window_start"], r["n"], r["total"]) for r in written(ran[0] / "minutes"))
    assert found == Counter((*k, len(ids), sum(ids)) for k, ids in expected.items())


def test_every_shape_is_exact_through_rescales_and_a_kill(tmp_path: Path) -> None:
    # One test: two processes that share the tests out would each run the job.
    ran = run(tmp_path)
    check_rows_that_a_function_refuses_are_dead_letters_with_their_place(ran)
    check_broadcast_gives_every_row_to_every_task(ran)
    check_round_robin_gives_every_row_to_one_task(ran)
    check_a_partitioner_of_ones_own_places_every_row(ran)
    check_state_of_a_key_goes_through_every_row_in_order(ran)
    check_a_batch_function_keeps_state_for_each_key(ran)
    check_built_in_aggregates_over_several_key_columns_with_nulls(ran)
    check_windows_of_event_time_behind_a_union(ran)
