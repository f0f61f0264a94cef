"""``ps.run`` and ``penstock.testing``: whole jobs in the test's own thread."""

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.testing import ABORT, EOF, PAUSE, CollectSink, ListSource, Run, run
from penstock.testing.clock import event_time_us

NINE = datetime(2026, 11, 24, 9, 0, 0)  # noqa: DTZ001  event times have no zone here
LINES = [{"line": "a b a"}, {"line": "b c"}, {"line": "a"}]
COUNTED = {("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2), ("c", 1)}


def words(params: ps.Parameters) -> ps.Job:
    job = ps.Job()
    lines = job.source("lines", ps.parquet(params["input"]), columns={"line": "string"})
    counts = lines.split("words", "line").key_by("word").aggregate("counts", count=ps.count())
    counts.sink("output", ps.parquet(params["output"]))
    return job


FOLDERS = {"input": "no-input", "output": "no-output"}


def pairs(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_job_runs_to_its_end(workers: int) -> None:
    result = ps.run(words, FOLDERS, inputs={"lines": LINES}, collect=True, workers=workers)
    assert Counter(pairs(result["output"])) == Counter(COUNTED)
    assert isinstance(result["output"].to_arrow(), pa.Table)
    assert result["output"].to_arrow().schema.names == ["word", "count"]
    assert result.complete
    assert result.restarts == 0
    with pytest.raises(KeyError, match="did you mean 'output'"):
        result["outptu"]


def test_a_job_writes_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(LINES), tmp_path / "in" / "lines.parquet")
    result = ps.run(words, {"input": tmp_path / "in", "output": tmp_path / "out"})
    assert result.rows == {}
    assert set(pairs(pq.read_table(tmp_path / "out").to_pylist())) == COUNTED


def test_a_job_object_runs_itself_with_sinks_of_the_kit() -> None:
    job, out = ps.Job(), CollectSink()
    numbers = job.source("numbers", ListSource([{"n": 1}, {"n": 2}], [{"n": 3}]))
    numbers.map("twice", lambda r: {"n": 2 * r["n"]}, columns={"n": "int64"}, per="record").sink("out", out)
    for _ in range(2):  # each run begins anew
        assert sorted(pairs(job.run()["out"])) == [(2,), (4,), (6,)]
        assert sorted(pairs(out.rows)) == [(2,), (4,), (6,)]
    assert [r["n"] for r in job.run(workers=2)["out"]] != []


def test_a_job_with_fewer_tasks_than_workers_ends() -> None:
    job, out = ps.Job(), CollectSink()
    job.source("numbers", ListSource([{"n": 1}, PAUSE, {"n": 2}]), parallelism=1).sink("out", out)
    assert pairs(job.run(workers=3)["out"]) == [(1,), (2,)]


def test_an_empty_result_has_its_columns() -> None:
    result = ps.run(words, FOLDERS, inputs={"lines": [{"line": ""}, EOF, *LINES]}, collect=True)
    assert result["output"] in ([], [{"word": "", "count": 1}])
    nothing = ps.run(words, FOLDERS, inputs={"lines": []}, collect=["output"])
    assert nothing["output"] == []
    assert nothing["output"].to_arrow().schema.names == ["word", "count"]


# --- Deaths, pauses, state ----------------------------------------------------------------------


def test_what_is_not_in_a_checkpoint_is_lost_and_done_again_once() -> None:
    first, second, third = LINES
    source = ListSource([first, PAUSE, second, ABORT, third])
    with run(words, FOLDERS, inputs={"lines": source}, workers=2) as t:
        assert t.run() is PAUSE
        assert t.rows("output") == []
        assert t.state("counts") == {"a": {"count": 2}, "b": {"count": 1}}
        t.checkpoint()
        assert set(pairs(t.rows("output"))) == {("a", 1), ("a", 2), ("b", 1)}
        assert t.run() is EOF
        assert Counter(pairs(t.rows("output"))) == Counter(COUNTED)
        assert t.result().restarts == 1
        assert t.run() is EOF


def test_without_a_checkpoint_a_death_goes_back_to_the_beginning() -> None:
    source = ListSource([*LINES[:2], ABORT, LINES[2], ABORT])
    result = ps.run(words, FOLDERS, inputs={"lines": source}, collect=True)
    assert Counter(pairs(result["output"])) == Counter(COUNTED)
    assert result.restarts == 2


def test_a_run_takes_a_checkpoint_at_a_pause() -> None:
    calls: list[int] = []

    def seen(row: dict[str, Any]) -> dict[str, Any]:
        calls.append(row["n"])
        return row

    job = ps.Job()
    numbers = job.source("numbers", ListSource([{"n": 1}, PAUSE, {"n": 2}, ABORT, {"n": 3}]))
    numbers.map("seen", seen, columns={"n": "int64"}, per="record").sink("out", CollectSink())
    assert pairs(job.run()["out"]) == [(1,), (2,), (3,)]
    assert calls == [1, 2, 2, 3]


def total(row: dict[str, Any], state: Any) -> Iterator[dict[str, Any]]:
    state["sum"] += row["n"]
    yield {"who": row["who"], "sum": state["sum"]}


def sums(source: ListSource | None = None) -> ps.Job:
    job = ps.Job()
    endless = ListSource(columns={"who": "string", "n": "int64"}, ends=False)
    stream = job.source("numbers", source or endless).key_by("who")
    columns = {"who": "string", "sum": "int64"}
    stream.process("sums", total, state={"sum": "int64"}, columns=columns, per="record").sink("out", CollectSink())
    return job


def test_state_lives_through_deaths_and_moves_to_more_workers() -> None:
    with run(sums(), workers=2) as t:
        t.push("numbers", [{"who": w, "n": 1} for w in "abcdefgh"])
        t.checkpoint()
        t.push("numbers", [{"who": "a", "n": 5}])
        assert t.state("sums")["a"] == {"sum": 6}
        t.abort()
        assert t.state("sums")["a"] == {"sum": 1}
        t.run()
        assert t.state("sums")["a"] == {"sum": 6}
        kept = t.snapshot()
        t.push("numbers", [{"who": "b", "n": 90}])
        t.checkpoint()
        assert t.rows("out")[-1] == {"who": "b", "sum": 91}
        with t.restore(kept, workers=3) as again:
            assert len(again.rows("out")) == 9
            assert again.state("sums")["a"] == {"sum": 6}
            again.run()  # the row for b is behind the snapshot: it is read again
            again.checkpoint()
            assert again.rows("out")[-1] == {"who": "b", "sum": 91}
            assert len(again.rows("out")) == 10


def test_a_checkpoint_has_what_was_read_and_nothing_else() -> None:
    source = ListSource(columns={"who": "string", "n": "int64"}, ends=False)
    with run(sums(source)) as t:
        t.push("numbers", [{"who": "a", "n": 1}])
        source.push([{"who": "a", "n": 2}])  # not read yet
        t.checkpoint()
        assert t.state("sums") == {"a": {"sum": 1}}
        t.run()
        assert t.state("sums") == {"a": {"sum": 3}}


def test_a_restored_run_has_as_many_workers_as_it_is_given() -> None:
    seen: list[int] = []

    def first(batch: Any, tasks: int) -> Any:
        seen.append(tasks)
        return np.zeros(batch.num_rows, np.int64)

    job = ps.Job()
    source = ListSource([{"n": 1}], ends=False)
    job.source("rows", source).partition(first).sink("out", CollectSink())
    with run(job, workers=2) as t:
        t.run()
        with t.restore(t.snapshot(), workers=3) as wider:
            wider.push("rows", [{"n": 2}])
    assert set(seen[:1]) == {2}
    assert seen[-1] == 3


# --- Time -----------------------------------------------------------------------------------------


def at(seconds: float, key: str = "k", n: int = 1) -> dict[str, Any]:
    return {"key": key, "at": NINE + timedelta(seconds=seconds), "n": n}


def windows(source: ListSource, **options: Any) -> ps.Job:
    job = ps.Job()
    rows = job.source("rows", source, event_time="at", **options)
    sums = rows.key_by("key").window("sums", "10s", total=ps.sum("n"))
    sums.sink("out", CollectSink())
    sums.late.sink("late", CollectSink())
    return job


def test_a_late_row_goes_to_its_output_and_is_counted() -> None:
    source = ListSource([at(1), at(12), at(2), PAUSE, at(3), at(14), ABORT])
    result = windows(source).run()
    assert pairs(result["out"]) == [
        ("k", NINE, NINE + timedelta(seconds=10), 1),
        ("k", NINE + timedelta(seconds=10), NINE + timedelta(seconds=20), 2),
    ]
    assert result["late"] == [at(2), at(3)]
    assert result.late == {"sums": 2}, "what a death has undone is not counted twice"


def test_state_of_a_window_is_that_of_its_open_panes() -> None:
    with run(windows(ListSource([at(1), at(2), PAUSE]))) as t:
        t.run()
        assert t.state("sums") == {("k", NINE): {"window_end": NINE + timedelta(seconds=10), "total": 2}}


def test_a_silent_partition_holds_windows_back_until_time_goes_on() -> None:
    source = ListSource([at(1), at(30)], [at(2)], ends=False)
    with run(windows(source, idle_after="1m"), workers=1) as t:
        assert t.run() is None
        t.checkpoint()
        assert t.rows("out") == []
        t.advance("59s")
        t.checkpoint()
        assert t.rows("out") == []
        source.push([at(31)])
        t.advance("2m")
        t.push("rows", [at(45)])
        t.checkpoint()
        assert [r["total"] for r in t.rows("out")] == [2, 2]


# --- Errors ---------------------------------------------------------------------------------------


def refuse(row: dict[str, Any]) -> dict[str, Any]:
    if row["n"] == 3:
        raise ValueError("three is too much")
    return row


def refusing(on_error: Any) -> ps.Job:
    job = ps.Job()
    numbers = job.source("numbers", ListSource([{"n": n} for n in range(1, 6)]))
    kept = numbers.map("no-three", refuse, columns={"n": "int64"}, per="record", on_error=on_error)
    kept.sink("out", CollectSink())
    if on_error == "dead-letter":
        kept.dead_letter.sink("bad", CollectSink())
    return job


def test_an_error_of_the_user_comes_with_its_record_and_place() -> None:
    with pytest.raises(ps.UserCodeError) as caught:
        refusing("fail").run()
    text = str(caught.value)
    assert "step 'no-three', source 'numbers', partition 'list-0', offset 2" in text
    assert "ValueError: three is too much" in text
    assert "record: " in text
    assert "n=3" in text.replace("'", "").replace(": ", "=")
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.__cause__.__traceback__ is not None


def test_dead_letters_are_rows_and_are_counted() -> None:
    result = refusing("dead-letter").run()
    assert pairs(result["out"]) == [(1,), (2,), (4,), (5,)]
    assert [(r["n"], r["error_offset"]) for r in result["bad"]] == [(3, 2)]
    assert result.dead_letters == {"no-three": 1}


def test_what_cannot_run_is_refused() -> None:
    with pytest.raises(ps.ConfigError, match="did you mean 'lines'"):
        ps.run(words, FOLDERS, inputs={"liens": LINES})
    with pytest.raises(ps.ConfigError, match="did you mean 'output'"):
        ps.run(words, FOLDERS, inputs={"lines": LINES}, collect=["outputs"])
    with pytest.raises(ps.ConfigError, match="has no end"):
        sums().run()
    with pytest.raises(ps.ConfigError, match="at least one"):
        ps.run(words, FOLDERS, inputs={"lines": LINES}, workers=0)
    with pytest.raises(ps.ConfigError, match="is no list of rows"):
        ps.run(words, FOLDERS, inputs={"lines": "a b"})
    with pytest.raises(ps.ConfigError, match="no function that builds one"):
        ps.run(7)  # type: ignore[arg-type]
    with pytest.raises(ps.ConfigError, match="give that"):
        ps.run(sums(), {"a": 1})
    with run(sums()) as t:
        with pytest.raises(ps.ConfigError, match="did you mean 'sums'"):
            t.state("sum")
        with pytest.raises(ps.ConfigError, match="list source"):
            t.push("nobody", [])
        with pytest.raises(ps.ConfigError, match="collecting sink"):
            t.rows("nobody")


def pushed() -> ps.Job:
    job = ps.Job()
    rows = job.source("rows", ps.ingest(1, "nowhere"), columns={"n": "int64"})
    rows.sink("out", CollectSink())
    return job


def test_pushed_rows_are_given_as_a_list() -> None:
    with pytest.raises(ps.ConfigError, match="nobody can push rows"):
        pushed().run()
    assert pairs(pushed().run(inputs={"rows": [{"n": 1}]})["out"]) == [(1,)]


def test_a_run_ends_by_rows_or_time() -> None:
    def endless() -> ps.Job:
        job = ps.Job()
        job.source("made", ps.generator(rate=1000)).sink("out", CollectSink())
        return job

    by_rows = endless().run(rows=20)
    assert not by_rows.complete
    assert len(by_rows["out"]) >= 20
    assert not endless().run(timeout="100ms").complete


def test_rows_that_do_not_fit_a_channel_wait_for_those_before_them() -> None:
    def many(batch: Any) -> Any:
        keys = pa.array([str(n % 7) for n in range(1_000)])
        return pa.record_batch({"key": keys, "text": pa.array(["x" * 4_000] * 1_000)})

    job = ps.Job()
    numbers = job.source("numbers", ListSource([{"n": n} for n in range(20)]))
    columns = {"key": "string", "text": "string"}
    texts = numbers.flat_map("many", many, columns=columns, batch_rows=1)
    counts = texts.key_by("key").aggregate("counts", count=ps.count())
    counts.sink("out", CollectSink())
    assert len(job.run(workers=2)["out"]) == 20_000


def other_columns() -> ps.Job:
    job = ps.Job()
    rows = job.source("rows", ListSource([{"n": 1}]), columns={"m": "int64"})
    rows.sink("out", CollectSink())
    return job


# --- Nothing stays behind ------------------------------------------------------------------------


def sockets() -> set[str]:
    """Return the sockets of this process."""
    names = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    links = {str(name.readlink()) for name in names if name.is_symlink()}
    return {link for link in links if link.startswith("socket:")}


def test_nothing_of_a_run_stays_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before, open_before = set(threading.enumerate()), sockets()
    ps.run(words, FOLDERS, inputs={"lines": LINES}, collect=True, workers=2)
    with pytest.raises(ps.UserCodeError):
        refusing("fail").run()
    with pytest.raises(ps.ConfigError, match="it gives n"):  # its source does not open
        other_columns().run()
    with run(sums()) as t:
        t.push("numbers", [{"who": "a", "n": 1}])
        t.checkpoint()
        assert set(threading.enumerate()) == before
        assert sockets() == open_before
    assert set(threading.enumerate()) == before
    assert list(tmp_path.iterdir()) == []


NOTEBOOK = """
import io, sys, threading, contextlib, os, signal
cells = [
    "import penstock as ps",
    "def double(r):\\n    return {'n': 2 * r['n']}",
    "job = ps.Job()\\n"
    "job.source('rows', ps.testing.ListSource([{'n': 1}, {'n': 2}]))"
    ".map('double', double, columns={'n': 'int64'}, per='record')"
    ".sink('out', ps.testing.CollectSink())",
    "result = job.run()",
    "table = result['out'].to_arrow()",
]
handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
space, told = {"__name__": "__main__"}, io.StringIO()
def work():
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        for number, cell in enumerate(cells):
            exec(compile(cell, f"<cell {number}>", "exec"), space)
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert told.getvalue() == "", told.getvalue()
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
assert handlers == [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
children = [p for p in os.listdir("/proc") if p.isdigit()] if os.path.isdir("/proc") else []
def parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return int(stat.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
assert not [pid for pid in children if parent(pid) == os.getpid()]
print(space["table"].to_pylist())
"""


def test_it_runs_in_a_notebook() -> None:
    """Cells without a file, run beside the main thread: no output, handler, thread or process."""
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    assert done.stdout == "[{'n': 2}, {'n': 4}]\n"


def test_a_run_is_closed_where_its_start_fails() -> None:
    class Broken(CollectSink):
        def claim(self, job_uid: str, fresh: bool) -> None:
            raise ps.ConfigError("it holds what another job wrote")

    job = ps.Job()
    job.source("rows", ListSource([{"n": 1}])).sink("out", Broken())
    with pytest.raises(ps.ConfigError, match="another job"):
        Run.__enter__(run(job))


# --- Rows and event time that a test pushes --------------------------------------------------------


@ps.record
class Reading:
    sensor: str
    at: ps.Time
    value: float | None = None


def minutes(params: ps.Parameters) -> ps.Job:
    job = ps.Job()
    columns = {"sensor": "string", "at": "timestamp[us]", "value": "double"}
    source = ps.parquet(params["input"])
    rows = job.source("readings", source, columns=columns, event_time="at", out_of_orderness="5s")
    counts = rows.key_by("sensor").window("minutes", "1m", n=ps.count(), values=ps.count("value"))
    counts.sink("output", ps.parquet(params["output"]))
    counts.late.sink("late", ps.parquet(params["output"]))
    return job


def at_us(text: str) -> int:
    return event_time_us(f"2026-11-24T{text}", 0)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_test_pushes_records_and_says_how_far_event_time_is(workers: int) -> None:
    with ps.testing.run(minutes, FOLDERS, workers=workers) as t:
        t.push("readings", [Reading("a", at_us("10:00:10"), 0.5), {"sensor": "b", "at": at_us("10:00:59")}])
        t.push("readings", [Reading("a", at_us("10:00:20"))])
        t.watermark("readings", "10:00:59.999999")
        t.checkpoint()
        assert t.rows("output") == []
        t.watermark("readings", "10:01")
        t.checkpoint()
        assert sorted((r["sensor"], r["n"], r["values"]) for r in t.rows("output")) == [("a", 2, 1), ("b", 1, 0)]
        t.watermark("readings", "10:00:30")  # an earlier time changes nothing
        t.push("readings", [Reading("a", at_us("10:00:40"))])
        t.checkpoint()
        assert [r["at"] for r in t.rows("late")] == [datetime(2026, 11, 24, 10, 0, 40)]  # noqa: DTZ001


def test_event_time_that_was_said_is_reached_again_after_a_death_and_by_other_workers() -> None:
    with ps.testing.run(minutes, FOLDERS) as t:
        t.push("readings", [Reading("a", at_us("10:00:10"))])
        t.watermark("readings", datetime(2026, 11, 24, 10, 2))  # noqa: DTZ001
        kept = t.snapshot()
        t.abort()
        t.push("readings", [Reading("a", at_us("10:00:20")), Reading("a", at_us("10:02:00"))])
        assert t.result().late == {"minutes": 1}
        with t.restore(kept, workers=3) as wider:
            wider.push("readings", [Reading("a", at_us("10:01:59"))])  # behind the two that are read again
            assert wider.result().late == {"minutes": 2}
            wider.watermark("readings", at_us("10:03:00"))
            wider.checkpoint()
            windows = sorted((r["window_start"].minute, r["n"]) for r in wider.rows("output"))
            assert windows == [(0, 1), (2, 1)]


def test_rows_behind_a_time_are_late_also_when_they_are_read_in_one_piece() -> None:
    with ps.testing.run(minutes, FOLDERS) as t:
        t.push("readings", [Reading("a", at_us("10:00:10"))])
        t.watermark("readings", "10:02")
        t.push("readings", [Reading("a", at_us("10:00:20"))])
        t.abort()  # all rows are read again, as fast as they come
        t.run()
        assert t.result().late == {"minutes": 1}


def seconds(params: ps.Parameters) -> ps.Job:
    """Count by minutes of a time that is a whole number of seconds."""
    job = ps.Job()
    columns = {"sensor": "string", "at": "int64"}
    rows = job.source("readings", ps.parquet(params["input"]), columns=columns, event_time="at", time_unit="s")
    rows.key_by("sensor").window("minutes", "1m", n=ps.count()).sink("output", ps.parquet(params["output"]))
    return job


def test_event_time_may_be_a_whole_number_of_seconds() -> None:
    with ps.testing.run(seconds, FOLDERS) as t:
        t.push("readings", [{"sensor": "a", "at": at_us("10:00:10") // 1_000_000 + n} for n in (0, 49, 50)])
        t.watermark("readings", "10:01:05")
        t.checkpoint()
        found = [(row["window_start"], row["n"]) for row in t.rows("output")]
        assert found == [(datetime(2026, 11, 24, 10, 0), 2)]  # noqa: DTZ001


def test_what_cannot_be_pushed_or_reached_is_refused() -> None:
    with ps.testing.run(minutes, FOLDERS) as t:
        with pytest.raises(ps.ConfigError, match=r"Reading\.value cannot hold 'x' as double"):
            t.push("readings", [Reading("a", 0, "x")])  # type: ignore[arg-type]
        with pytest.raises(ps.ConfigError, match="did you mean 'readings'"):
            t.watermark("reading", "10:00")
        with pytest.raises(ps.ConfigError, match="'soon' is no event time"):
            t.watermark("readings", "soon")
    with ps.testing.run(words, FOLDERS) as t, pytest.raises(ps.ConfigError, match="has no event time"):
        t.watermark("lines", "10:00")


def asks(params: ps.Parameters) -> ps.Job:
    async def length(row: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        if row["line"] == "for ever":
            await asyncio.Event().wait()
        if row["line"] == "refused":
            raise ValueError(row["line"])
        return {"length": len(row["line"])}

    job = ps.Job()
    lines = job.source("lines", ps.parquet("no-input"), columns={"line": "string"}).key_by("line")
    lines.enrich("length", length, columns={"length": "int64"}, timeout="1h").sink("out", ps.discard())
    return job


async def in_a_loop(call: Callable[[], Any]) -> Any:
    """Call from a coroutine, as a notebook calls a cell."""
    return call()


def test_a_job_that_asks_a_service_runs_inside_of_an_event_loop() -> None:
    found = asyncio.run(in_a_loop(lambda: ps.run(asks, inputs={"lines": LINES}, collect=True)))
    assert Counter(pairs(found["out"])) == {("a b a", 5): 1, ("b c", 3): 1, ("a", 1): 1}


def test_calls_are_cancelled_inside_of_an_event_loop() -> None:
    lines = [{"line": "for ever"}, {"line": "refused"}]
    with pytest.raises(ps.UserCodeError, match="ValueError: refused"):
        asyncio.run(in_a_loop(lambda: ps.run(asks, inputs={"lines": lines}, collect=True)))
