"""Rates from statuses, plain lines, JSON lines and the live table."""

import io
import json
from typing import Any

from rich.console import Console, RenderableType

from penstock.base.errors import ConfigError, StateError
from penstock.base.values import replace
from penstock.cli.exits import Exit, exit_of_error
from penstock.cli.live import draw, draw_workers
from penstock.cli.rates import History, short_bytes, short_count, short_seconds, step_rates
from penstock.cli.run_events import Events
from penstock.cli.run_watch import exit_of_state
from penstock.cli.screen import JsonLines, PlainLines
from penstock.contract import codec
from penstock.contract.balance import Balance
from penstock.contract.schemes import SchemeChoice
from penstock.contract.status import (
    CheckpointStatus,
    CommittedRows,
    DeathStatus,
    InputSeen,
    JobState,
    JobStatus,
    RestartStatus,
    SinkStatus,
    StepStatus,
    UnlistedSource,
    WorkerStatus,
)

WORKERS = (WorkerStatus(0, "up", 1, 2, True), WorkerStatus(1, "up", 3, 4, restarts=1))


def status(second: float, rows: int, *, attempt: int = 1, **more: object) -> JobStatus:
    steps = (
        StepStatus("lines", 2, rows, rows, busy=0.5, blocked=0.4, queue_bytes=2048),
        StepStatus("counts", 2, rows * 10, rows, watermark_us=int(second * 1e6) - 1_500_000),
    )
    plain = JobStatus("words", "u", JobState.RUNNING, int(second * 1e6), 2, attempt=attempt, workers=WORKERS)
    plain = replace(plain, sinks=(SinkStatus("counts", "exactly-once"),))
    return replace(plain, **{"steps": steps, **more})  # type: ignore[arg-type]


CHANGED: dict[str, Any] = {"schemes": (SchemeChoice("work", "hot"),), "balance": Balance(1)}
EPOCH = CheckpointStatus(7, 9_000_000, 3 << 20, 0.25, "x")


def test_rates_are_between_two_statuses_of_one_attempt() -> None:
    lines, counts = step_rates(status(10, 1000), status(12, 3000))
    assert (lines.rows_in_per_s, counts.rows_in_per_s) == (1000, 10_000)
    assert (lines.lag_s, counts.lag_s) == (None, 1.5)
    assert step_rates(status(10, 1000), status(12, 3000, attempt=2))[0].rows_in_per_s == 0
    assert step_rates(None, status(12, 3000))[0].rows_in_per_s == 0


def test_history_looks_back_seconds_and_keeps_the_last_lines() -> None:
    history = History()
    for tick in range(20):
        before, now = history.add(status(10 + tick / 2, 1000 * (tick // 2), checkpoint=EPOCH))
    assert before is not None
    assert 3_000_000 <= now.time_us - before.time_us <= 3_500_000
    gone = status(30, 0, steps=(), state=JobState.FINISHED, checkpoint=replace(EPOCH, bytes=0, duration_s=0.0))
    before, now = history.add(gone)
    assert before is not None
    assert before.time_us == 10_000_000
    assert [s.rows_in for s in now.steps] == [9000, 90_000]
    assert now.checkpoint == EPOCH


def test_of_the_last_counters_each_step_keeps_the_larger() -> None:
    history = History()
    history.add(status(10, 1000))
    last = status(11, 900, state=JobState.FINISHED)
    grown = (last.steps[0], replace(last.steps[1], rows_in=20_000))
    _, now = history.add(replace(last, steps=grown))
    assert [s.rows_in for s in now.steps] == [1000, 20_000]


def test_plain_lines_say_what_changes() -> None:
    out = io.StringIO()
    screen = PlainLines(out)
    screen.show(status(1, 0, state=JobState.STARTING, steps=()))
    screen.show(status(2, 1000))
    screen.show(status(3, 2000, checkpoint=EPOCH))
    screen.show(status(5, 4000, checkpoint=EPOCH))
    done = (CommittedRows("lines", 4000, 0), CommittedRows("counts", 40_000, 0))
    screen.show(status(6, 0, steps=(), state=JobState.FINISHED, checkpoint=EPOCH, committed=done))
    assert out.getvalue().splitlines() == [
        "[   0.0 s] words  Starting  workers 2/2  leader 0",
        "[   1.0 s] words  Running  workers 2/2  leader 0",
        "[   1.0 s] lines 1k (0/s) (held back 40%)  counts 10k (0/s)",
        "[   2.0 s] committed epoch 7: 3 MiB in 250 ms",
        "[   4.0 s] lines 4k (1k/s) (held back 40%)  counts 40k (10k/s)",
        "[   5.0 s] words: Finished after 5 s, committed through epoch 7",
        "[   5.0 s] lines read 4,000 rows, counts wrote 40,000 rows",
    ]


def test_the_checkpoint_of_an_earlier_run_is_not_committed_again() -> None:
    out = io.StringIO()
    screen = PlainLines(out)
    screen.show(status(1, 0, state=JobState.STARTING, workers=(), checkpoint=EPOCH))
    screen.show(status(2, 0, state=JobState.STARTING, workers=(), checkpoint=EPOCH))
    screen.show(status(3, 1000, checkpoint=EPOCH))
    assert "committed" not in out.getvalue()
    screen.show(status(4, 1000, checkpoint=replace(EPOCH, epoch=8)))
    assert out.getvalue().count("committed epoch 8") == 1


def test_what_happens_to_a_job_is_said_and_counted() -> None:
    events = Events()
    led_by_1 = (replace(WORKERS[0], leader=False), replace(WORKERS[1], leader=True))
    three = (*led_by_1, WorkerStatus(2, "up"))
    story = [
        status(1, 0, state=JobState.STARTING, attempt=0, workers=()),
        status(2, 10, checkpoint=EPOCH),
        status(3, 0, state=JobState.RESTARTING, checkpoint=EPOCH),
        status(4, 0, state=JobState.RESTARTING, attempt=2, term=2, workers=led_by_1),
        status(5, 10, attempt=2, workers=led_by_1, checkpoint=EPOCH),
        status(6, 10, attempt=2, workers=three, state=JobState.RESCALING, wanted_workers=3),
        status(7, 10, attempt=2, version=2, workers=three, wanted_workers=3),
        status(8, 20, attempt=2, version=3, workers=three, wanted_workers=3, **CHANGED),
        status(9, 20, attempt=2, version=3, workers=led_by_1, state=JobState.STOPPED),
    ]
    said = [line for now in story for line in events.add(now)]
    assert said == [
        "leader: worker 1 leads now, worker 0 no longer (term 2)",
        "recovered: back to epoch 7, runs again after 3 s (attempt 2); the rows of each step are counted from 0 again",
        "rescaled: 2 -> 3 workers (version 2)",
        "schemes: work by hot (version 3)",
        f"balance: {Balance(1)} (version 3)",
    ]
    assert events.summary(story[-1]) == [
        "words: Stopped after 8 s, nothing committed, 1 recovery, 1 rescale, 1 leader change",
        "nothing is committed: rows that were read, if any, are rolled back; the next run reads them again",
    ]


def died(*numbers: int) -> RestartStatus:
    """Describe deaths by their numbers; each window began with number 1."""
    newest = (DeathStatus(1, n, n, f"killed by {n}\nin flight: row {n}") for n in numbers)
    return RestartStatus(numbers[-1], 10, 600.0, tuple(newest))


def test_each_death_is_said_once_with_what_was_in_flight_and_the_last_one_by_the_error() -> None:
    events = Events()
    story = [
        status(1, 0),
        status(2, 0, restarts=died(1), state=JobState.RESTARTING),
        status(3, 0, restarts=died(1)),
        status(4, 0, restarts=died(1, 2, 3)),
        status(5, 0),
        status(6, 0, restarts=died(2, 3, 4, 5), state=JobState.FAILED),
    ]
    said = [line for now in story for line in events.add(now)]
    assert said[:2] == ["worker 1: killed by 1: restart 1 of 10 within 10m", "  in flight: row 1"]
    assert [line for line in said if "in flight" not in line] == [
        f"worker 1: killed by {n}: restart {n} of 10 within 10m" for n in (1, 2, 3, 4)
    ]


def ended(rows: int, state: JobState, *committed: CommittedRows, **more: object) -> list[str]:
    events = Events()
    events.add(status(1, 0))
    last = replace(status(9, rows, **more), state=state, committed=committed)  # type: ignore[arg-type]
    return events.summary(last)[1:]


def test_the_summary_tells_what_is_committed_not_what_was_handed_over() -> None:
    done = (CommittedRows("lines", 700, 0), CommittedRows("counts", 7000, 0))
    assert ended(1000, JobState.STOPPED, *done, checkpoint=EPOCH) == [
        "lines read 700 rows, counts wrote 7,000 rows",
        "epoch 7 is the last that is committed: 300 rows were read after it, 3,000 were given to"
        " sinks; they are rolled back, and the next run reads them again",
    ]
    assert ended(1000, JobState.FAILED) == [
        "nothing is committed: at least 1,000 rows were read; they are rolled back, and the next run reads them again",
    ]
    behind = CommittedRows("lines", 1700, 700), CommittedRows("counts", 17_000, 7000)
    assert ended(900, JobState.FAILED, *behind, checkpoint=EPOCH)[1:] == [
        "epoch 7 is the last that is committed: rows that were read after it, if any, are rolled"
        " back; the next run reads them again"
    ], "the last report of the failed task is older than the checkpoint"
    exactly = (CommittedRows("lines", 1700, 700), CommittedRows("counts", 17_000, 7000))
    assert ended(1000, JobState.STOPPED, *exactly, checkpoint=EPOCH) == [
        "lines read 1,000 rows (1,700 in all), counts wrote 10,000 rows (17,000 in all)"
    ]


def test_what_a_restored_run_has_committed_is_told_in_all_and_without_a_guess() -> None:
    done = (CommittedRows("lines", 700), CommittedRows("counts", 7000))
    assert ended(1000, JobState.STOPPED, *done, checkpoint=EPOCH) == [
        "lines read 700 rows in all, counts wrote 7,000 rows in all",
        "epoch 7 is the last that is committed: rows that were read after it, if any, are rolled"
        " back; the next run reads them again",
    ]


def test_rows_without_event_time_are_counted_apart_from_late_ones() -> None:
    steps = (StepStatus("window", 1, 50, 40, late_rows=7, untimed_rows=3, dead_rows=18_979),)
    assert ended(0, JobState.FINISHED, steps=steps) == [
        "7 late rows, 3 rows without event time, 18,979 dead-letter rows"
    ]
    assert ended(0, JobState.FINISHED, steps=(StepStatus("w", 1, 5, 4, late_rows=1),)) == ["1 late row"]


def test_trouble_of_a_job_that_goes_on_is_said_once_and_when_it_is_over() -> None:
    events = Events()
    full = "checkpoint 8 failed: No space left on device\nmore"
    story = [
        status(1, 10),
        status(2, 20, failure=full),
        status(3, 30, failure=full.replace("8", "9")),
        status(4, 40),
        status(5, 50, failure="what ended it", state=JobState.FAILED),
    ]
    assert [line for now in story for line in events.add(now)] == [
        "trouble: checkpoint 8 failed: No space left on device",
        "  more",
        "trouble is over",
    ]


def shown(picture: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, width=110, color_system=None).print(picture)
    return out.getvalue()


def test_a_job_that_runs_and_commits_nothing_says_so_once_and_when_it_commits() -> None:
    events = Events()
    eighth = replace(EPOCH, epoch=8)
    story = [
        status(40, 10, checkpoint=EPOCH, uncommitted_s=25.9, checkpoint_interval_s=2.0),
        status(41, 10, checkpoint=EPOCH, uncommitted_s=26.0, checkpoint_interval_s=2.0),
        status(42, 10, checkpoint=EPOCH, uncommitted_s=27.0, checkpoint_interval_s=2.0),
        status(43, 10, checkpoint=EPOCH, uncommitted_s=0.5, checkpoint_interval_s=2.0),  # another leader
        status(44, 10, checkpoint=eighth, uncommitted_s=0.1, checkpoint_interval_s=2.0),
    ]
    assert [line for now in story for line in events.add(now)] == [
        "trouble: nothing committed for 26 s (a checkpoint is due every 2 s)",
        "a checkpoint is committed again",
    ]


def test_a_source_that_cannot_be_listed_is_said_once_for_each_reason_and_when_it_is_listed() -> None:
    reasons = ("no broker after 1 ms", "no broker after 2 ms", "no rights")
    waits = [
        status(n, 0, state=JobState.STARTING, unlisted=(UnlistedSource("orders", why, 1_000_000),))
        for n, why in enumerate(reasons, 3)
    ]
    story = [*waits, status(9, 0)]
    events = Events()
    assert [line for now in story for line in events.add(now)] == [
        "trouble: source 'orders' could not be listed for 2 s, and the job waits for it: no broker after 1 ms",
        "trouble: source 'orders' could not be listed for 4 s, and the job waits for it: no rights",
        "source 'orders' is listed",
    ]
    assert "could not be listed for 2 s" in shown(draw(None, waits[0]))


def test_a_sink_that_takes_no_rows_for_long_is_said_once_and_when_it_takes_some() -> None:
    full = SinkStatus("out", "exactly-once", full_s=1.0)
    fuls = (1.0, 6.0, 7.0, None, 2.0)
    story = [status(n, 0, sinks=(replace(full, full_s=each),)) for n, each in enumerate(fuls, 3)]
    events = Events()
    assert [line for now in story for line in events.add(now)] == [
        "trouble: sink 'out' has taken no rows for 6 s: it has not yet stored or sent those before; a target that is"
        " slow or away, or a full disk, does this",
        "sink 'out' takes rows again",
    ]
    assert "sink 'out' has taken no rows for 6 s" in shown(draw(None, story[1]))


def test_the_table_shows_that_a_running_job_commits_nothing() -> None:
    late = status(60, 10, checkpoint=EPOCH, uncommitted_s=51.0, checkpoint_interval_s=10.0)
    assert "nothing committed for 51 s (a checkpoint is due every 10 s)" in shown(draw(None, late))
    assert "nothing committed" not in shown(draw(None, replace(late, state=JobState.RESTARTING)))
    assert "nothing committed" not in shown(draw(None, replace(late, uncommitted_s=None)))


def test_a_full_disk_is_said_once_whichever_file_meets_it() -> None:
    events = Events()
    full = "checkpoint {}: file sink: cannot stage /out/{}.part: [Errno 28] No space left"
    story = [status(n, 10, failure=full.format(n, name)) for n, name in enumerate("abab", 1)]
    said = [line for now in story for line in events.add(now)]
    assert said == [f"trouble: {full.format(1, 'a')}"]


def test_attempts_that_end_for_one_reason_are_said_once() -> None:
    events = Events()
    ended = "attempt {} ended, the job goes back and tries again: sink 'out': ValueError: no"
    story = [status(n, 10, failure=ended.format(n)) for n in (1, 2, 3)]
    assert [line for now in story for line in events.add(now)] == [f"trouble: {ended.format(1)}"]


def test_a_run_that_goes_on_has_recovered_from_nothing() -> None:
    events = Events()
    story = [
        status(1, 0, state=JobState.STARTING, attempt=4, term=3, workers=()),
        status(2, 0, state=JobState.STARTING, attempt=5, term=4),
        status(3, 10, attempt=5, term=4),
    ]
    assert [line for now in story for line in events.add(now)] == []


def test_json_lines_are_statuses_and_notes() -> None:
    out = io.StringIO()
    screen = JsonLines(out)
    screen.show(status(1, 5))
    screen.note("stopping")
    first, second = out.getvalue().splitlines()
    assert codec.decode(JobStatus, first.encode()) == status(1, 5)
    assert json.loads(second) == {"note": "stopping"}


def test_the_table_shows_rates_backpressure_lag_and_the_last_epoch() -> None:
    console = Console(file=io.StringIO(), width=110, color_system=None)
    console.print(draw(status(10, 1000), status(12, 3000, checkpoint=EPOCH, failure="a reason")))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "words  Running  workers 2/2  restarts 1" in text
    assert "███████·  50%  40%" in text
    assert "1.5 s" in text
    assert "epoch 7: 3 MiB in 250 ms, 3 s ago, output not yet visible" in text
    assert "keys" not in text
    assert "a reason" in text


def test_rare_columns_and_workers_are_shown_when_there_is_any() -> None:
    console = Console(file=io.StringIO(), width=130, color_system=None)
    steps = (StepStatus("window", 2, 5000, 40, late_rows=7, untimed_rows=3, state_keys=1234),)
    now = status(12, 0, steps=steps, checkpoint=EPOCH, published_through=6)
    console.print(draw(None, now))
    console.print(draw_workers(now))
    rows = [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert rows[1][-4:] == ["keys", "late", "no", "time"]
    assert rows[2][-3:] == ["1.23k", "7", "3"]
    assert " ".join(rows[3]) == "epoch 7: 3 MiB in 250 ms, 3 s ago"
    assert rows[-2:] == [["0", "up,", "leads", "1", "2", "0"], ["1", "up", "3", "4", "1"]]


def test_what_is_left_to_read_is_a_column_where_it_is_known() -> None:
    console = Console(file=io.StringIO(), width=130, color_system=None)
    steps = (
        StepStatus("topic", 2, pending_rows=4_500),
        StepStatus("folder", 1, pending_bytes=2048),
        StepStatus("sums", 1),
    )
    console.print(draw(None, status(12, 0, steps=steps, checkpoint=EPOCH)))
    rows = [line.split() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert rows[1][-1] == "pending"
    assert [row[-1] for row in rows[2:5]] == ["4.5k", "KiB", "0%"]


def test_steps_whose_results_may_differ_after_a_rollback_are_named() -> None:
    console = Console(file=io.StringIO(), width=130, color_system=None)
    steps = (StepStatus("sums", 1), StepStatus("panes", 1, varies=True))
    console.print(draw(None, status(12, 0, steps=steps)))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "results that are not committed may be others after a rollback: panes" in text


def test_rates_begin_anew_when_counters_do() -> None:
    history = History()
    history.add(status(10, 9000, attempt=2, state=JobState.RESTARTING))
    history.add(status(11, 100, attempt=2))
    before, now = history.add(status(12, 1100, attempt=2))
    assert step_rates(before, now)[0].rows_in_per_s == 1000


def test_numbers_are_short() -> None:
    assert [short_count(v) for v in (0, 999, 1234, 45_678, 1_234_567, 2e9)] == [
        "0",
        "999",
        "1.23k",
        "45.7k",
        "1.23M",
        "2G",
    ]
    assert [short_bytes(v) for v in (0, 1023, 1536, 64 << 20)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "64 MiB",
    ]
    assert [short_seconds(v) for v in (0.0351, 1.25, 150, 9000, 200_000)] == [
        "35 ms",
        "1.25 s",
        "2.5 min",
        "2.5 h",
        "2.31 d",
    ]


def test_exit_codes() -> None:
    assert exit_of_state(JobState.FINISHED) == exit_of_state(JobState.STOPPED) == 0
    assert exit_of_state(JobState.FAILED) == 1
    assert (exit_of_error(ConfigError("x")), exit_of_error(StateError("x"))) == (2, 1)
    assert [int(e) for e in Exit] == [0, 1, 2, 3, 130]


def test_a_run_that_is_over_at_the_first_look_says_what_is_passed_over() -> None:
    out = io.StringIO()
    screen = PlainLines(out)
    screen.show(status(1, 0, state=JobState.STARTING, steps=()))
    seen = InputSeen("in", 1, passed=1, passed_names=("x (sub-folder)",), step="lines")
    screen.show(status(2, 10, state=JobState.FINISHED, inputs=(seen,)))
    assert "input of lines: passed over: x (sub-folder)" in out.getvalue()


def drawn(now: JobStatus, columns: int) -> str:
    output = io.StringIO()
    Console(file=output, width=columns).print(draw(None, now))
    return output.getvalue()


def test_no_number_is_cut_on_a_narrow_terminal() -> None:
    now = status(12, 1_980_000, checkpoint=EPOCH)
    many = replace(now.steps[1], late_rows=271, state_keys=12_345, pending_rows=2_690)
    now = replace(now, steps=(now.steps[0], many))
    wide, narrow, least = (drawn(now, columns) for columns in (140, 80, 60))
    assert "█" in wide
    assert "queued" in wide
    for text in (narrow, least):
        assert "…" not in text
        assert {"271", "12.3k", "2.69k", "50%"} <= set(text.split())
    assert "rows in" in narrow
    assert "rows in" not in least
