"""The schema of a state with types: what rows get that lack a column, and timers that go on under another name."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.base.limits import STATE_TABLE_ROWS_MIN
from penstock.contract.graph import TimeKind
from penstock.contract.ids import BlobName, Epoch
from penstock.contract.keygroups import Range
from penstock.contract.settings import StateSettings
from penstock.keyed_state.keyed_backend import KeyedStateBackend
from penstock.model.declared.state_types import state_type
from penstock.model.keys import KeyCodec
from penstock.model.table_columns import NO_TIMER
from penstock.protocol.state_entries import Files
from penstock.steps.base import NOTHING_DUE, StateSchema, TimerColumn
from penstock.steps.typed.evolving_schema import evolving_schema
from penstock.storage.blobs import DirectoryBlobStore

GROUPS = 4
CODEC = KeyCodec((pa.string(),), GROUPS)
REACHED = np.full(GROUPS, -1, np.int64)
NAMES = [f"key-{i}" for i in range(2 * STATE_TABLE_ROWS_MIN)]


@ps.state
class Before:
    n: int
    idle: ps.Timer


@ps.state
class After:
    n: int
    quiet: ps.Timer = ps.renamed("idle")
    late: ps.Timer
    label: str = "new"
    note: str | None = "first"
    limit: float | None = None


def schema_of(cls: type, *timers: str) -> StateSchema:
    found = state_type(cls)
    assert found is not None
    return evolving_schema("s", (("k", pa.string()),), found, tuple(TimerColumn(name) for name in timers))


def opened(schema: StateSchema, folder: Path) -> tuple[KeyedStateBackend, Any]:
    state = KeyedStateBackend(StateSettings(), (Range(0, GROUPS),), GROUPS, folder)
    return state, state.open(schema)


def stored(state: KeyedStateBackend, blobs: DirectoryBlobStore) -> Files:
    """Write a checkpoint of all that is there."""
    cut = state.flip(Epoch(1))
    while not state.copy_on():
        pass
    return cut.write(lambda end: BlobName(f"1{end}"), blobs)


def test_columns_say_what_older_rows_get() -> None:
    found = {c.name: (c.added, c.absent) for c in schema_of(After).values}
    assert found == {
        "n": (0, None),
        "quiet": (NO_TIMER, None),
        "late": (NO_TIMER, None),
        "label": (None, b"new"),
        "note": (b"first", None),
        "limit.set": (0, None),
        "limit": (0.0, None),
        "__begun": (1, None),
    }


@ps.state
class Many:
    n: int
    times: ps.Timers


def test_a_set_of_times_gets_a_timer_when_a_function_is_called_for_it() -> None:
    plain, called = schema_of(Many), schema_of(Many, "times.next")
    assert [c.name for c in plain.values] == ["n", "times.length"]
    assert [(c.name, c.added) for c in called.values[2:]] == [("times.next", NO_TIMER + 1)], (
        "times that are stored already ask which one is next"
    )


@pytest.mark.parametrize("on_disk", [False, True])
def test_timers_of_a_renamed_field_fire_and_those_of_an_added_one_do_not(tmp_path: Path, on_disk: bool) -> None:
    blobs = DirectoryBlobStore(tmp_path / "blobs")
    state, table = opened(schema_of(Before, "idle"), tmp_path)
    rows = table.rows(CODEC.keys([pa.array(NAMES, pa.string())]))
    table.column("idle")[rows] = np.arange(len(rows)) % 7 + 10
    table.column("__begun")[rows] = 1
    table.arm(rows, REACHED)
    files = stored(state, blobs)

    again, table = opened(schema_of(After, "quiet", "late"), tmp_path)
    again.load(files, blobs)
    if on_disk:
        again.limit(1)
        table.rows(CODEC.keys([pa.array(NAMES[:1], pa.string())]))
    assert table.on_disk == on_disk
    taken, left = 0, len(NAMES)
    while left:
        due = table.take_timers(100, left)
        assert set(due.fields.tolist()) == {0}, "timers are there, and all of quiet, which is the first field"
        assert due.times.tolist() == sorted(due.times.tolist())
        table.column("quiet")[due.rows] = NO_TIMER
        taken, left = taken + len(due.rows), left - len(due.rows)
    assert taken == len(NAMES)
    assert table.next_timer(TimeKind.EVENT) == NOTHING_DUE
    state.close()
    again.close()


@ps.state
class Five:
    last: ps.Ring[int, 5]  # type: ignore[valid-type]


@ps.state
class Four:
    last: ps.Ring[int, 4]  # type: ignore[valid-type]


def test_a_ring_that_gets_less_room_keeps_its_newest_values_wherever_they_begin(tmp_path: Path) -> None:
    blobs, keys = DirectoryBlobStore(tmp_path / "blobs"), CODEC.keys([pa.array(["full", "short"], pa.string())])
    state, table = opened(schema_of(Five), tmp_path)
    rows = table.rows(keys)
    table.column("last")[rows] = [[7, 8, 4, 5, 6], [1, 2, 0, 0, 0]]
    table.column("last.head")[rows], table.column("last.length")[rows] = [2, 0], [5, 2]
    files = stored(state, blobs)
    again, table = opened(schema_of(Four), tmp_path)
    again.load(files, blobs)
    rows = table.rows(keys)
    assert table.column("last")[rows].tolist() == [[5, 6, 7, 8], [1, 2, 0, 0]]
    assert table.column("last.head")[rows].tolist() == [0, 0]
    assert table.column("last.length")[rows].tolist() == [4, 2]
    state.close()
    again.close()


@ps.state
class Plain:
    n: int
    label: str = "new"


@ps.state
class Optional:
    n: int | None
    label: str | None = None


def test_values_stay_when_their_field_may_be_none_also_a_default_that_was_never_written(tmp_path: Path) -> None:
    blobs, keys = DirectoryBlobStore(tmp_path / "blobs"), CODEC.keys([pa.array(["written", "not"], pa.string())])
    state, table = opened(schema_of(Plain), tmp_path)
    rows = table.rows(keys)
    table.column("n")[rows] = [5, 0]
    table.write_bytes("label", rows[:1], pa.array([b"old"], pa.large_binary()))
    files = stored(state, blobs)
    again, table = opened(schema_of(Optional), tmp_path)
    again.load(files, blobs)
    rows = table.rows(keys)
    assert (table.column("n")[rows].tolist(), table.column("n.set")[rows].tolist()) == ([5, 0], [1, 1])
    assert table.read_bytes("label", rows).to_pylist() == [b"old", b"new"]
    state.close()
    again.close()
