"""Windows of all rows against a naive model: parts of two tasks, put together by tasks whose state moves."""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.contract.window_parts import parts_of
from penstock.steps.keyed import Aggregates
from penstock.steps.windows.all_keys import AllKeysStep, PartsStep
from penstock.steps.windows.late_rows import WindowShape
from tests.support.window_tasks import COMPUTE, NAME, OUTPUT, PLAIN, TURNS, Tasks, all_deleted, batch, computed, plain

COMPUTED = COMPUTE[:-1]  # there is no last row of all
BOUNDS = [OUTPUT.field("window_start"), OUTPUT.field("window_end")]
ALL = pa.schema([*BOUNDS, *list(OUTPUT)[3:-1]])
WINDOW = ("window_start", "window_end")
SHAPES = (WindowShape(20, 3, 4, "ts"), WindowShape(30, 0, 0, "ts", 10))


def part_schema() -> pa.Schema:
    aggregates = Aggregates("types", parts_of(COMPUTED), PLAIN)
    columns = aggregates.results(aggregates.places(0), pa.array([], pa.int32()).to_numpy())
    return pa.schema([*BOUNDS, *(pa.field(c.name, v.type) for c, v in zip(parts_of(COMPUTED), columns, strict=True))])


PARTS = part_schema()


def stepped(shape: WindowShape) -> Any:
    return lambda keys: AllKeysStep(NAME, shape.lateness_us, COMPUTED, keys, (PARTS, ALL))


@given(TURNS, st.sampled_from(SHAPES))
def test_windows_of_all_rows_agree_with_a_naive_model(turns: Any, shape: WindowShape) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(stepped(shape), Path(folder), WINDOW, PARTS)
        late: list[pa.RecordBatch] = []
        senders = [PartsStep("parts", shape, COMPUTED, (PLAIN, PARTS)) for _ in range(2)]
        for sender in senders:
            sender.bind({"main": tasks.push, "late": late.append})
        kept: dict[int, list[Any]] = defaultdict(list)
        dropped, largest, reached = 0, -(10**6), -(10**6)
        for rows, disorder, workers in turns:
            bounds = []
            for _, ts, value, whole in rows:
                bounds.append(largest - disorder)
                first = ts - (ts - shape.offset_us) % shape.step_us + shape.step_us
                if first + shape.lateness_us <= bounds[-1]:
                    dropped += 1
                else:
                    for end in range(first, first + shape.size_us, shape.step_us):
                        if end + shape.lateness_us > reached:
                            kept[end].append((ts, value, whole))
                largest = max(largest, ts)
            for number, sender in enumerate(senders):
                if some := rows[number::2]:
                    sender.on_batch(batch(some, bounds[number::2]))
            reached = max(reached, largest - disorder - 10)
            tasks.watermark(reached)
            over = {end for _, end, *_ in plain(tasks.main)}
            assert over == {end for end in kept if end + shape.lateness_us <= reached}
            if workers:
                tasks.rescale(workers, reached)
        tasks.watermark(2**63 - 1)
        expected = [(end - shape.size_us, end, *computed(of, 10**9)[:-1]) for end, of in kept.items()]
        assert sorted(plain(tasks.main), key=str) == sorted(expected, key=str)
        assert sum(b.num_rows for b in late) == dropped == sum(s.counters()["late"] for s in senders)
        assert all(task.state.keys == 0 or all_deleted(task) for task in tasks.tasks), "nothing is kept for ever"
        for task in tasks.tasks:
            task.state.close()


def test_a_batch_gives_one_part_for_each_window_that_it_meets() -> None:
    emitted: list[pa.RecordBatch] = []
    step = PartsStep("parts", WindowShape(20, 0, 0, "ts"), COMPUTED, (PLAIN, PARTS))
    step.bind({"main": emitted.append, "late": emitted.append})
    step.on_batch(batch([(mote, ts, 1, 1) for mote in range(50) for ts in (1, 19, 25)], [-99] * 150))
    assert [(row[1], row[2]) for row in plain(emitted)] == [(20, 100), (40, 50)]
