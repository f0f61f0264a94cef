"""One process that writes through a sink, in the order of calls that an engine and its leader keep.

    claim -> publish what is committed -> sweep -> writers
      then for each epoch:  write -> seal -> finish -> commit -> publish -> note it -> forget

A life is a forked process, so that it can be killed. What outlives it is in a :class:`Ledger`, which is
to the kit what the committed manifests are to a job. The second epoch of each life aborts after
``finish``: the next one carries its handles, as in a job.
"""

import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable
from uuid import uuid4

import pyarrow as pa

from penstock.base.errors import PenstockError, StorageError
from penstock.contract.codec import Message, decode, encode
from penstock.contract.ids import Attempt, Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.manifest import SinkHandle
from penstock.engine.output_publisher import publications, publish_these
from penstock.ports import CommitAwareWriter, Sink, SinkPublisher, SinkWriter
from penstock.testing.connectors.outgoing_calls import Effects
from penstock.testing.connectors.rule_broken import RuleBroken, must

UID = "job-of-the-kit"
TASKS = tuple(TaskId(StageIndex(1), Ordinal(worker), 0) for worker in range(2))
ABORTED = 2  # the epoch with rows of a life that does not commit, counted from its first
FAILED_EPOCHS_MAX = 5
LIFE_MAX_S = 60.0
SURVIVED, GAVE_UP, WRONG = 0, 3, 4  # how a life ends


@runtime_checkable
class SinkTarget(Protocol):
    """A fresh place for output, which a check writes to and reads from."""

    def sink(self) -> Sink:
        """Return a sink that writes there, as a new process makes it. All of them write to the same place."""
        ...

    def visible(self) -> list[dict[str, object]]:
        """Return the rows that a reader of the output sees now, as dicts."""
        ...


class CommittedEpoch(Message, tag="CommittedEpoch"):
    """One committed epoch: its handles, and how many pieces of the rows are committed with it."""

    epoch: Epoch
    pieces: int
    handles: tuple[SinkHandle, ...]


class Superseded(Exception):
    """Another life has committed meanwhile."""


class Ledger:
    """What is committed, in a folder. A commit is one ``link``: of two lives behind the same commit, one succeeds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def commits(self) -> list[CommittedEpoch]:
        """Return the committed epochs in order."""
        return [decode(CommittedEpoch, file.read_bytes()) for file in sorted(self.folder.glob("commit-*"))]

    def commit(self, commit: CommittedEpoch, before: int) -> None:
        """Commit an epoch behind ``before`` others. Raises Superseded when there are more."""
        draft = self.folder / f"draft-{uuid4().hex}"
        draft.write_bytes(encode(commit))
        try:
            os.link(draft, self.folder / f"commit-{before:06d}")
        except FileExistsError as error:
            raise Superseded from error
        finally:
            draft.unlink()

    def note_published(self, epoch: Epoch) -> None:
        """Note that an epoch is visible."""
        (self.folder / f"published-{epoch:06d}").touch()

    def published(self) -> Epoch:
        """Return the newest epoch that is noted."""
        return Epoch(max((int(file.name[-6:]) for file in self.folder.glob("published-*")), default=0))

    def complain(self, text: str) -> None:
        """Keep what a life found wrong."""
        (self.folder / "wrong").write_text(text)

    def forgive(self) -> None:
        """Forget what a life found wrong."""
        (self.folder / "wrong").unlink(missing_ok=True)

    def complaint(self) -> str:
        """Return what a life found wrong."""
        with suppress(FileNotFoundError):
            return (self.folder / "wrong").read_text()
        return ""


class Life:
    """One attempt of the job, in one process."""

    def __init__(self, target: SinkTarget, ledger: Ledger, pieces: Sequence[pa.RecordBatch], attempt: int) -> None:
        self._target = target
        self._ledger = ledger
        self._pieces = pieces
        self._attempt = Attempt(attempt)
        self._uncommitted: list[SinkHandle] = []
        self._committed = Epoch(0)
        self._names = 0

    def run(self, effects: Effects) -> None:
        """Write until all pieces are committed and published. Raises what ends an attempt, after a clean-up."""
        effects.watch_threads()
        with effects.watched():
            sink = self._target.sink()
            sink.claim(UID, fresh=not self._ledger.commits())
        for commit in self._ledger.commits():
            if commit.epoch > self._ledger.published():
                self._publish(sink.publisher, commit, effects)
        writers: list[SinkWriter] = []
        try:
            with effects.watched():
                sink.sweep(self._attempt)
                writers = [sink.writer(task, self._attempt) for task in TASKS]
            self._write(sink, writers, effects)
        except BaseException:
            self._reset(sink, effects)
            raise
        finally:
            with effects.watched():
                for writer in writers:
                    writer.close()
                sink.close()

    def _write(self, sink: Sink, writers: Sequence[SinkWriter], effects: Effects) -> None:
        commits = self._ledger.commits()
        epoch, done = (commits[-1].epoch, commits[-1].pieces) if commits else (Epoch(0), 0)
        self._committed = epoch
        if not commits and self._attempt == 1:  # an epoch without rows that is aborted; the next life uses its number
            epoch = Epoch(epoch + 1)
            self._cut(writers, epoch)
        before, given, round_, failed = len(commits), done, 0, 0
        while done < len(self._pieces):
            epoch, round_ = Epoch(epoch + 1), round_ + 1
            for writer in writers:
                if given < len(self._pieces):
                    self._give(writer, self._pieces[given], effects)
                    given += 1
            try:
                with effects.watched():
                    self._uncommitted += self._cut(writers, epoch)
            except PenstockError:
                failed += 1
                must(failed <= FAILED_EPOCHS_MAX, "finish", "it fails again and again, and nothing is wrong any more")
                continue
            if round_ == ABORTED and given < len(self._pieces):
                continue
            commit = CommittedEpoch(epoch, given, tuple(self._uncommitted))
            self._ledger.commit(commit, before)
            self._committed, before = epoch, before + 1
            done, self._uncommitted = given, []
            self._publish(sink.publisher, commit, effects)

    def _give(self, writer: SinkWriter, rows: pa.RecordBatch, effects: Effects) -> None:
        with effects.watched():
            must(writer.room(), "room", f"a new writer has no room for {rows.num_rows} rows")
            writer.write(rows)

    def _cut(self, writers: Sequence[SinkWriter], epoch: Epoch) -> list[SinkHandle]:
        """Seal and finish; when one writer fails, the handles of the others are kept for the next epoch."""
        handles, failure = [], None
        for writer in writers:
            self._names += 1
            if isinstance(writer, CommitAwareWriter):
                writer.committed(self._committed)
            pending = writer.seal(epoch, f"{self._attempt}-{epoch}-{os.getpid()}-{self._names}")
            try:
                handle = pending.finish()
            except PenstockError as error:
                failure = error
                continue
            if handle is not None:
                handles.append(handle)
        if failure is not None:
            self._uncommitted += handles
            raise failure
        return handles

    def _publish(self, publisher: SinkPublisher, commit: CommittedEpoch, effects: Effects) -> None:
        sinks = {handle.sink: publisher for handle in commit.handles}
        for handles in publications(sinks, commit.handles):
            for again in (True, False):
                try:
                    with effects.watched():
                        publish_these(publisher, handles, commit.epoch)
                    break
                except StorageError as error:
                    must(again, "publish", f"it fails again, and nothing is wrong any more: {error}")
                except Exception as error:
                    fatal = f"{type(error).__name__}: {error}"
                    raise RuleBroken(
                        "publish", f"an error that may pass has to be ps.StorageError, it is {fatal}"
                    ) from error
        self._ledger.note_published(commit.epoch)
        for handle in commit.handles:
            with effects.watched(), suppress(StorageError):
                publisher.forget(handle)

    def _reset(self, sink: Sink, effects: Effects) -> None:
        for handle in self._uncommitted:
            with effects.watched(), suppress(StorageError):
                sink.publisher.discard(handle)


def fork(work: Callable[[], None], ledger: Ledger) -> int:
    """Run ``work`` in a process that is a copy of this one. Returns its pid.

    The copy has the garbage of this process, and none of its threads. A client that is garbage waits for its threads
    when it is closed. So the copy collects only what it made itself.
    """
    pid = _copy()
    if pid:
        return pid
    status = WRONG
    try:
        work()
        status = SURVIVED
    except RuleBroken as error:
        ledger.complain(str(error))
    except Exception:
        # The attempt is given up, and a new one begins: the next life has to put everything right.
        (ledger.folder / "last-error").write_text(traceback.format_exc())
        status = GAVE_UP
    finally:
        os._exit(status)


def _copy() -> int:
    """Fork, as ``os.fork``. What this process has is never collected in the copy, which has a session of its own.

    A copy may be stopped. When a group of processes loses its last tie to the others of its session, and one of it is
    stopped, the kernel sends SIGHUP to all of it: here to the tests.
    """
    collects = gc.isenabled()
    gc.disable()  # so nothing is collected before it is frozen
    try:
        pid = os.fork()
        if not pid:
            gc.freeze()
            os.setsid()
        return pid
    finally:
        if collects:
            gc.enable()


def wait(pid: int, *, or_stop: bool = False) -> int:
    """Wait until a process has ended; with ``or_stop``, or until it stands still.

    Returns its status as of ``os.waitpid``. Raises RuleBroken when it does neither in time.
    """
    late = threading.Event()

    def end() -> None:
        late.set()
        os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(LIFE_MAX_S, end)
    timer.start()
    try:
        _, status = os.waitpid(pid, os.WUNTRACED if or_stop else 0)
    finally:
        timer.cancel()
        timer.join()
    must(not late.is_set(), "hangs", f"a process did not end within {LIFE_MAX_S:.0f} s")
    return status
