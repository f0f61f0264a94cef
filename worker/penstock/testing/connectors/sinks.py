"""Checks of a sink: committed rows are visible once, others never, wherever a process is killed."""

import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from penstock.base.errors import PenstockError
from penstock.contract.ids import Attempt, Epoch
from penstock.contract.manifest import SinkHandle, misfit
from penstock.ports import SinkWriter
from penstock.testing.connectors.lives import GAVE_UP, SURVIVED, TASKS, UID, Ledger, Life, SinkTarget, fork, wait
from penstock.testing.connectors.outgoing_calls import Action, Effects
from penstock.testing.connectors.rule_broken import RuleBroken, counted, must, shown

MakeTarget = Callable[[], SinkTarget]
PIECES = 6  # three epochs of two tasks
LIVES_MAX = 4
ROWS_IN_AN_EPOCH = 1 << 20
ROWS_AT_ONCE = 8192
ROOM_MAX_S = 10.0  # for a disk


@dataclass(frozen=True, slots=True)
class SinkReport:
    """What a check has done: outgoing calls of one undisturbed process, and how often each thing was done."""

    calls: int
    killed: int
    stopped: int
    failed: int


def check_sink(
    make: MakeTarget, rows: pa.RecordBatch, *, every: int = 1, first: int = 1, locked_in: Collection[str] = ()
) -> SinkReport:
    """Check every rule of a sink. Each run writes ``rows`` to a new target that ``make`` gives.

    A slow target may have only the outgoing calls ``first``, ``first + every`` and so on hit. ``locked_in`` names
    functions of a client that hold a lock of this machine: a process is stopped behind them, since nobody could go on
    while it has the lock. It is killed and given errors inside them too.

    ``rows`` has at least six rows, all different. Processes are forked from this one, killed before
    every outgoing call, stopped there while a successor finishes, and given an error there. So ``visible`` runs in
    this process and ``sink`` in those: a client with threads of its own must serve one of the two only. Raises
    RuleBroken.
    """
    must(rows.num_rows >= PIECES, "rows", f"{rows.num_rows} rows were given, the kit needs {PIECES}")
    expected = counted(rows.to_pylist())
    must(len(expected) == rows.num_rows, "rows", "two of the rows are equal: a repeat could not be seen")
    with _Trial(make, rows) as trial:
        trial.call_one_by_one(rows)
    with _Trial(make, rows) as trial:
        calls = trial.count()
    done = Counter[Action]()
    for at in range(first, calls + 1, every):
        for action in Action:
            with _Trial(make, rows) as trial:
                done[action] += trial.hit(at, action, locked_in)
    return SinkReport(calls, done[Action.KILL], done[Action.STOP], done[Action.FAIL])


# --- Calls in one process ---------------------------------------------------------------------------


def _check_calls(target: SinkTarget, rows: pa.RecordBatch) -> None:
    """Check the calls one by one: what is visible after each."""
    half = rows.num_rows // 3
    first, second, third = rows.slice(0, half), rows.slice(half, half), rows.slice(2 * half)
    sink = target.sink()
    sink.claim(UID, fresh=True)
    writer, publisher = sink.writer(TASKS[0], Attempt(1)), sink.publisher
    must(
        writer.seal(Epoch(1), "1-1-a-1").finish() is None, "no-rows", "an epoch without rows has a handle; None is due"
    )
    writer.write(first)
    handle = writer.seal(Epoch(2), "1-2-a-2").finish()
    must(handle is not None, "handle", "finish() of an epoch with rows gave no handle")
    assert handle is not None
    _check_handle(handle, half)
    _sees(target, [], "early", "finish() has returned, the epoch is not committed")
    publisher.publish(handle, Epoch(2))
    _sees(target, [first], "publish", "publish() has returned")
    publisher.publish(handle, Epoch(2))
    _sees(target, [first], "publish-again", "publish() was called a second time")
    other = target.sink()
    other.claim(UID, fresh=False)
    other.publisher.publish(handle, Epoch(2))
    _sees(target, [first], "publish-again", "another worker has published it, too")
    for again in range(2):
        publisher.forget(handle)
        _sees(target, [first], "forget", f"forget() was called {again + 1} times")
    try:
        other.publisher.publish(handle, Epoch(2))
    except PenstockError as error:
        raise RuleBroken(
            "publish-late", f"publish() after forget(), by a worker that is late, fails: {error}"
        ) from error
    _sees(target, [first], "publish-late", "publish() was called after forget()")
    writer.write(second)
    lost = writer.seal(Epoch(3), "1-3-a-3").finish()
    assert lost is not None
    for again in range(2):
        publisher.discard(lost)
        _sees(target, [first], "discard", f"discard() was called {again + 1} times")
    _check_room(writer, third)
    writer.close()
    writer.close()
    other.sweep(Attempt(2))
    for closed in (sink, other, sink):
        closed.close()
    _sees(target, [first], "abandoned", "the attempt was given up")


def _check_room(writer: SinkWriter, rows: pa.RecordBatch) -> None:
    """Write many rows without a cut, as a task does whose barrier comes behind them."""
    times, pause = -(-ROWS_AT_ONCE // rows.num_rows), threading.Event()
    many = pa.concat_batches([rows] * times)
    for written in range(0, ROWS_IN_AN_EPOCH, many.num_rows):
        end = time.monotonic() + ROOM_MAX_S
        while not writer.room():
            must(
                time.monotonic() < end,
                "room",
                f"after {written:,} rows of one epoch room() stays false: the next cut comes behind rows that wait for"
                " room, so the job would wait for ever; put rows on the disk as they come",
            )
            pause.wait(0.002)
        writer.write(many)


def _check_handle(handle: SinkHandle, rows: int) -> None:
    """Check the handle of ``rows`` rows of the first task and epoch 2."""
    must(isinstance(handle, SinkHandle), "handle", f"finish() gave {type(handle).__name__}; ps.SinkHandle is due")
    wrong = misfit(handle)
    must(wrong is None, "handle", f"finish() gave a handle: {wrong}")
    told = (handle.rows, handle.epoch, handle.task)
    must(told == (rows, 2, TASKS[0]), "handle", f"(rows, epoch, task) of the handle are {told}")


def _sees(target: SinkTarget, pieces: Sequence[pa.RecordBatch], rule: str, when: str) -> None:
    due = counted(row for piece in pieces for row in piece.to_pylist())
    _compare((due, due), target, (rule, rule), when)


def _compare(due: tuple[Counter[str], Counter[str]], target: SinkTarget, rules: tuple[str, str], when: str) -> None:
    """Compare what is visible with the rows that have to be (first) and those that may be (second)."""
    seen = counted(target.visible())
    missing, surplus = due[0] - seen, seen - due[1]
    must(not missing, rules[0], f"{when}: not visible are {shown(missing)}")
    must(not surplus, rules[1], f"{when}: visible and not due, or visible twice, are {shown(surplus)}")


# --- Processes ----------------------------------------------------------------------------------------


class _Trial:
    """One target, one ledger, and the lives that write there one after another."""

    def __init__(self, make: MakeTarget, rows: pa.RecordBatch) -> None:
        size = rows.num_rows // PIECES
        cuts = [*range(0, size * PIECES, size), rows.num_rows]
        self._pieces = [rows.slice(a, b - a) for a, b in pairwise(cuts)]
        self._target = make()
        self._attempts = 0

    def __enter__(self) -> "_Trial":
        self._scratch = tempfile.TemporaryDirectory(prefix="kit-")
        self._ledger = Ledger(Path(self._scratch.name) / "ledger")
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.cleanup()

    def call_one_by_one(self, rows: pa.RecordBatch) -> None:
        """Check the calls one by one, in one process."""
        pid = fork(lambda: _check_calls(self._target, rows), self._ledger)
        self._survived(wait(pid), "a process that makes each call once")

    def count(self) -> int:
        """Run one life to its end, and return how many outgoing calls it makes."""
        pid = self._begin(Effects(), told=True)
        self._survived(wait(pid), "a process that nobody disturbed")
        self._judge_end("nobody disturbed the process")
        return int((self._ledger.folder / "calls").read_text())

    def hit(self, at: int, action: Action, locked_in: Collection[str]) -> bool:
        """Hit call number ``at``, let successors finish, and judge. Returns whether that call came."""
        pid = self._begin(Effects(at, action, locked_in))
        status = wait(pid, or_stop=action is Action.STOP)
        when = f"a process was {action} before its outgoing call {at}"
        self._judge_now(when)
        if os.WIFSTOPPED(status):
            with _continued(pid):
                self._finish(when)
            self._ledger.forgive()  # it may have been refused, however the target says that
        elif action is Action.FAIL and os.WEXITSTATUS(status) == SURVIVED and not os.WIFSIGNALED(status):
            self._complain()
        else:
            self._finish(when)
        self._judge_end(when, "stale-writer" if action is Action.STOP else "repeated")
        return os.WIFSTOPPED(status) or os.WIFSIGNALED(status) or action is Action.FAIL

    def _begin(self, effects: Effects, *, told: bool = False) -> int:
        self._attempts += 1
        life = Life(self._target, self._ledger, self._pieces, self._attempts)

        def work() -> None:
            life.run(effects)
            if told:
                (self._ledger.folder / "calls").write_text(str(effects.calls))

        return fork(work, self._ledger)

    def _finish(self, when: str) -> None:
        """Run lives until one survives. One may have to give up: it gets in the way of nobody."""
        for _ in range(LIVES_MAX):
            status = wait(self._begin(Effects()))
            self._complain()
            if os.waitstatus_to_exitcode(status) == SURVIVED:
                return
        last = (self._ledger.folder / "last-error").read_text()
        raise RuleBroken("successor", f"{when}; {LIVES_MAX} successors in a row have failed, the last one with\n{last}")

    def _survived(self, status: int, whose: str) -> None:
        self._complain()
        code = os.waitstatus_to_exitcode(status)
        if code == GAVE_UP:
            raise RuleBroken("undisturbed", f"{whose} failed:\n{(self._ledger.folder / 'last-error').read_text()}")
        must(code == SURVIVED, "undisturbed", f"{whose} ended with status {code}")

    def _complain(self) -> None:
        if text := self._ledger.complaint():
            rule, _, found = text.partition(": ")
            raise RuleBroken(rule, found)

    def _judge_now(self, when: str) -> None:
        """Judge what is visible while nobody writes: all that is noted as published, nothing that is not committed."""
        commits, noted = self._ledger.commits(), self._ledger.published()
        self._complain()
        committed = commits[-1].pieces if commits else 0
        published = max((c.pieces for c in commits if c.epoch <= noted), default=0)
        _compare((self._rows(published), self._rows(committed)), self._target, ("lost", "early"), when)

    def _judge_end(self, when: str, surplus: str = "repeated") -> None:
        self._complain()
        due = self._rows(len(self._pieces))
        end = f"{when}, and everything was committed and published in the end"
        _compare((due, due), self._target, ("lost", surplus), end)

    def _rows(self, pieces: int) -> Counter[str]:
        return counted(row for piece in self._pieces[:pieces] for row in piece.to_pylist())


@contextmanager
def _continued(pid: int) -> Iterator[None]:
    """Continue a process that stands still at the end of a ``with``, and wait until it has ended."""
    try:
        yield
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise
    else:
        os.kill(pid, signal.SIGCONT)
    finally:
        wait(pid)
