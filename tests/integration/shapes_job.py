"""A job with one of everything that a graph may have; ``test_shapes`` knows the answers.

It is copied beside the job file and imported by the engines, as a user's module is.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import penstock as ps

COLUMNS = {
    "id": "int64",
    "word": "string",
    "flag": "bool",
    "day": "timestamp[us]",
    "at": "timestamp[us]",
}
# From here on a word travels as a dictionary's index: as a key, over streams, into state and files.
CHECKED = {**COLUMNS, "word": "dictionary<values=string, indices=int32, ordered=0>"}
KEYS = ("word", "flag", "day")
COPIES = 2  # tasks behind the broadcast
PLACES = 3  # tasks behind the custom edge
POISON = 101


def job(parameters: "ps.Parameters") -> ps.Job:
    job = ps.Job()

    def read(name: str) -> ps.Stream:
        connector = ps.parquet(f"{parameters['input']}/{name}", rate=int(parameters["rate"]))
        return job.source(name, connector, columns=COLUMNS, event_time="at", batch_rows=64)

    def write(stream: ps.Stream, name: str) -> None:
        stream.sink(f"{name}-out", ps.parquet(f"{parameters['output']}/{name}"))

    rows = checked([read("first"), read("second")], write)
    dealt_out(rows, write)
    with_state(rows, write)
    return job


Write = Callable[[ps.Stream, str], None]


def checked(inputs: list[ps.Stream], write: Write) -> ps.Stream:
    """Keep what a function refuses, each in the source's own chain, and put the rest together."""
    sound = [
        stream.map(
            f"check-{name}",
            check,
            columns=CHECKED,
            per="record",
            batch_rows=16,
            on_error="dead-letter",
        )
        for name, stream in zip(("first", "second"), inputs, strict=True)
    ]
    write(sound[0].dead_letter.union(sound[1].dead_letter), "letters")
    return sound[0].union(sound[1])


def dealt_out(rows: ps.Stream, write: Write) -> None:
    """Deal rows out in every way that has no key."""
    write(rows.broadcast().parallel(COPIES).map("same", same, columns=CHECKED), "copies")
    write(rows.round_robin().filter("odd", odd), "odd")
    write(
        rows.partition(by_id)
        .parallel(PLACES)
        .flat_map("twice", twice, columns={"id": "int64", "nth": "int32"}, per="record"),
        "twice",
    )


def with_state(rows: ps.Stream, write: Write) -> None:
    """Keep state for each key in every way."""
    keyed = rows.key_by(*KEYS)
    write(
        keyed.process(
            "chain",
            chain,
            state={"seen": "int64", "last": "string"},
            columns={"key": "string", "id": "int64", "nth": "int64", "before": "string"},
            per="record",
        ),
        "chain",
    )
    write(
        keyed.process("sums", sums, state={"sum": "int64"}, columns={"id": "int64", "sum": "int64"}),
        "sums",
    )
    write(
        keyed.aggregate(
            "totals",
            n=ps.count(),
            days=ps.count("day"),
            total=ps.sum("id"),
            newest=ps.last("id"),
            low=ps.min("at"),
            high=ps.max("at"),
            any_flag=ps.max("flag"),
            mean=ps.mean("id"),
        ),
        "totals",
    )
    write(rows.key_by("word").window("minutes", "1m", n=ps.count(), total=ps.sum("id")), "minutes")


def check(row: dict[str, Any]) -> dict[str, Any]:
    if row["id"] % POISON == 0:
        raise ValueError(f"id {row['id']}")
    return row


def same(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def odd(rows: pa.RecordBatch) -> pa.Array:
    return pc.equal(pc.bit_wise_and(rows.column("id"), 1), 1)


def by_id(rows: pa.RecordBatch, tasks: int) -> Any:
    assert rows.schema.names == list(COLUMNS), "nothing hidden is shown"
    return rows.column("id").to_numpy() % tasks


def twice(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for nth in range(2):
        yield {"id": row["id"], "nth": nth}


def key_of(row: dict[str, Any]) -> str:
    return "/".join(str(row[name]) for name in KEYS)


def chain(row: dict[str, Any], kept: dict[str, Any]) -> list[dict[str, Any]]:
    kept["seen"] += 1
    before, kept["last"] = kept["last"], str(row["id"])
    return [{"key": key_of(row), "id": row["id"], "nth": kept["seen"], "before": before}]


def sums(rows: pa.RecordBatch, state: Any) -> pa.RecordBatch:
    sums = state["sum"]
    running = []
    for key, number in zip(state.index.tolist(), rows.column("id").to_pylist(), strict=True):
        sums[key] += number
        running.append(int(sums[key]))
    state["sum"] = sums
    return pa.record_batch({"id": rows.column("id"), "sum": pa.array(running, pa.int64())})
