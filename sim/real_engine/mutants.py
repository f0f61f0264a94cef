"""One-line faults of the engine that runs under seeds must notice.

Most of the first ones passed every test of a revision before the real engine ran under a seed: unit, golden,
property and integration tests together. A few seeds of its scenario notice each of them. The code of steps is
used by the job of one scenario only.
"""

from sim.real_engine.engine_mutant import EngineMutant
from sim.real_engine.engine_mutant import line as _line
from sim.real_engine.output_mutants import OUTPUT_MUTANTS

_TABLE = (
    EngineMutant(
        "fired-rows-behind-the-barrier",
        "rows that a watermark fires leave only with the next batch",
        _line(
            "engine.task_effects",
            "reached = self._firing(lambda: self._parts.chain.on_watermark(action.time_us))",
            "return self.step(ev.Fired(self._firing(lambda: self._parts.chain.on_watermark(action.time_us))))",
        ),
    ),
    EngineMutant(
        "live-offset-committed",
        "a reader is told its live offset as committed",
        _line(
            "engine.source_reader",
            "opened.reader.committed(epoch, state)",
            "opened.reader.committed(epoch, opened.reader.state())",
        ),
        seed=3,
    ),
    EngineMutant(
        "blob-folder-not-synced",
        "the name of a stored file is not durable",
        _line(
            "storage.blobs",
            "ref = self._write(file, name, content)",
            "return self._write(file, name, content)",
        ),
    ),
    EngineMutant(
        "staged-name-stays",
        "a file of the job's directory keeps its staged name, too, and nobody lists that",
        _line(
            "storage.blobs",
            "self.files.unlink(staged_leaf, within=folder)  # before the sync: nobody looks for it later",
            "pass",
        ),
    ),
    EngineMutant(
        "output-folder-not-synced",
        "the names of published files are not durable",
        _line(
            "connectors.file_sink",
            "sync_folder(self._files, self._output.path)",
            "pass",
        ),
        seed=3,
    ),
    EngineMutant(
        "staged-file-not-synced",
        "the content of a staged file is not durable",
        _line("connectors.file_output", "files.fsync(file)", "pass"),
    ),
    EngineMutant(
        "lost-groups-still-listed",
        "a task lists state files of groups that it has lost",
        _line("keyed_state.keyed_backend", "self._files.lose(share, self._copies)", "pass"),
        seed=3,
    ),
    EngineMutant(
        "sender-call-lost",
        "a sender is called for the first element only",
        _line("transport.output", "if not self._scheduled:", "if not self._scheduled and not self._opened:"),
    ),
    EngineMutant(
        "failed-call-not-noticed",
        "a call that fails before it is accepted is noticed when its sender writes, and it never writes",
        _line("transport.output", "self._stream.watch(self._on_call_ended)", "pass"),
        "lone-calls",
    ),
    EngineMutant(
        "source-spins",
        "a source that may not read waits for no time, again and again",
        _line(
            "engine.source_reader", "if split not in self._ended and may_read(split):", "if split not in self._ended:"
        ),
    ),
    EngineMutant(
        "timer-fires-in-the-past",
        "a timer that is set to a time already reached fires at that time, and its rows are late",
        _line(
            "steps.typed.shared_states",
            "for kind, reached_us in ((TimeKind.EVENT, self.reached), (TimeKind.CLOCK, self._never)):",
            "for kind, reached_us in ((TimeKind.EVENT, self._never), (TimeKind.CLOCK, self._never)):",
        ),
        "chaos-timers",
    ),
    EngineMutant(
        "time-said-before-timers",
        "a task says a time up to which not all of its timers have fired",
        _line(
            "steps.typed.process_step",
            "return reached(bound - (fired.full and first == bound), first)  # one of the last microsecond may be left",
            "return bound",
        ),
        "chaos-timers",
    ),
    EngineMutant(
        "cleared-timer-fires",
        "a timer fires that a function has cleared in the same slice",
        _line("steps.typed.timer_calls", "return bool(self._columns[field][row] == time)", "return True"),
        "chaos-timers",
    ),
    EngineMutant(
        "loaded-timer-not-queued",
        "a timer that was loaded fires only if its key gets another row",
        _line("keyed_state.hot", "self.arm(rows, _NOT_REACHED, time)", "pass"),
        "chaos-timers",
    ),
    EngineMutant(
        "time-said-before-sessions",
        "a task says a time up to which not all of its sessions have ended",
        _line(
            "steps.windows.sessions",
            "return reached(time_us, self._state.next_timer(), self._shape.lateness_us)",
            "return time_us",
        ),
        "chaos-windowed",
    ),
    EngineMutant(
        "time-said-before-sliding-windows",
        "a task says a time up to which not all of its sliding windows have emitted",
        _line("steps.windows.sliding", "return reached(time_us, end, self._shape.lateness_us)", "return time_us"),
        "chaos-windowed",
    ),
    EngineMutant(
        "pairs-begin-again",
        "the next slice of a join begins with its first pair",
        _line(
            "steps.joins.event_join",
            "emitted[unit] = happen.count[before].sum() + happen.skipped[part.stop] + part.part",
            "emitted[unit] = 0",
        ),
        "chaos-joined",
        seed=3,
    ),
    EngineMutant(
        "time-said-before-pairs",
        "a task says a time up to which not all of its pairs were emitted",
        _line(
            "steps.joins.event_join",
            "return time_us if first == until else first + self._partners.lateness_us",
            "return time_us",
        ),
        "chaos-joined",
    ),
    EngineMutant(
        "partner-dropped-too-soon",
        "a row is dropped that a late row of the other side still needs",
        _line(
            "steps.joins.event_join",
            "unneeded = (units.buckets + 1) * self._partners.bucket_us + self._times.kept[units.sides]",
            "unneeded = units.buckets * self._partners.bucket_us",
        ),
        "chaos-joined",
    ),
    EngineMutant(
        "time-of-the-faster-input",
        "the time of a join is that of the input which is ahead",
        _line("protocol.task.input_progress", "if low is None or mark < low:", "if low is None or mark > low:"),
        "chaos-joined",
    ),
    EngineMutant(
        "joined-windows-stay",
        "the rows of a window that was joined stay in the state",
        _line("steps.joins.window_join", "self._kept.delete(places)", "pass"),
        "chaos-priced",
    ),
    EngineMutant(
        "newest-version-holds",
        "a row is joined with the newest version of the table that has come, whatever its time",
        _line(
            "steps.joins.partners",
            "intervals.newest((events.units, events.times), versions.times, versions.ends(len(units.counts)), found)",
            "intervals.newest((events.units, events.times * 0 + 2**62), versions.times, "
            "versions.ends(len(units.counts)), found)",
        ),
        "chaos-priced",
    ),
    EngineMutant(
        "look-renews-a-life",
        "a record that only looks lengthens the life of its key",
        _line(
            "steps.typed.lifetime",
            "if time_us == NO_BOUND or until <= before or not (before == NO_TIMER or wrote):",
            "if time_us == NO_BOUND or until <= before:",
        ),
        "chaos-forgetful",
    ),
    EngineMutant(
        "taken-timer-queued-on-disk",
        "a timer that was taken comes again when its row goes to disk",
        _line(
            "keyed_state.rocks",
            "places = np.flatnonzero((times != NO_TIMER) & queued)",
            "places = np.flatnonzero(times != NO_TIMER)",
        ),
        "chaos-forgetful-on-disk",
        seed=1,
    ),
    EngineMutant(
        "sender-released-at-its-end",
        "a sender may go when its end has come, before that is committed",
        _line(
            "protocol.channel.ingest_partition",
            "return (WantCheckpoint(),)",
            "return self._dismiss(IngestAnswer.FINISHED)",
        ),
        "chaos-pushed",
    ),
    EngineMutant(
        "sender-released-by-an-older-commit",
        "a commit of rows before the end of a partition lets its sender go",
        _line(
            "connectors.ingest",
            "self._queue.committed(state.offset, state.finished)",
            "self._queue.committed(self._offset, self._finished)",
        ),
        "chaos-pushed",
        seed=1,
    ),
    EngineMutant(
        "sender-superseded-by-itself",
        "a sender that connects again is told that a later one has taken over",
        _line("protocol.channel.ingest_partition", "if sender < self._sender:", "if sender <= self._sender:"),
        "chaos-pushed",
        seed=1,
    ),
    EngineMutant(
        "stopped-without-its-savepoint",
        "a job that is stopped with a savepoint closes before the savepoint is copied",
        _line(
            "protocol.leader.job_completion",
            'stop = next((r for r in state.requests() if r.kind == "stop" and r.argument is None), None)',
            'stop = next((r for r in state.requests() if r.kind == "stop"), None)',
        ),
        "chaos-endless",
    ),
    EngineMutant(
        "output-of-the-parent-published-again",
        "a job that begins from a savepoint publishes what the savepoint's job has published",
        _line(
            "protocol.savepoints",
            "return replace(task, files=tuple(adopt(file) for file in task.files), handles=())",
            "return replace(task, files=tuple(adopt(file) for file in task.files))",
        ),
        "moved",
    ),
    EngineMutant(
        "changed-rows-on-disk-not-in-the-cut",
        "a checkpoint lacks what was changed and then moved to disk",
        _line(
            "keyed_state.tiered",
            "for few in cold.dirty_rows():",
            "for few in ():",
        ),
        "chaos-windowed-on-disk",
        seed=2,
    ),
    EngineMutant(
        "deleted-row-stays-on-disk",
        "a row that was deleted comes back from disk",
        _line("keyed_state.tiered", "self._cold.delete(self._cold.keys_of(copied))", "pass"),
        "chaos-forgetful-on-disk",
    ),
    EngineMutant(
        "time-said-before-timers-on-disk",
        "a task says a time up to which the timers of rows on disk have not fired",
        _line(
            "keyed_state.tiered",
            "while self._cold is not None and (found := self._cold.timers(time, first, 1)):",
            "while False and self._cold is not None and (found := self._cold.timers(time, first, 1)):",
        ),
        "chaos-timers-on-disk",
        seed=7,
    ),
    EngineMutant(
        "pane-number-forgotten",
        "a pane has the number of the one before",
        _line("steps.windows.panes", "self._state.column(PANE)[rows] += 1", "pass"),
        "chaos-paned",
    ),
    EngineMutant(
        "pane-without-news",
        "a late row does not bring a window to its pane, and a pane of it comes again",
        _line(
            "steps.windows.panes", "self._state.column(timer)[rows] = NO_TIMER", "self._state.column(timer)[rows] += 1"
        ),
        "chaos-paned",
    ),
    EngineMutant(
        "clock-in-a-rescale",
        "timers of the clock fire in key groups that the next owner has already",
        _line(
            "protocol.task.task_core",
            "return self.state.life is TaskLifecycle.RUNNING and self.takes_input",
            "return self.takes_input",
        ),
        "chaos-clocked",
        seed=7,
    ),
    EngineMutant(
        "open-window-begins-again",
        "a window of rows forgets how many rows it has at the end of a batch",
        _line("steps.windows.counted", "filled[of_keys] %= self._size", "filled[of_keys] = 0"),
        "chaos-clocked",
    ),
    EngineMutant(
        "rows-leave-in-a-rescale",
        "rows leave with their answers though the next owner of their key asks for them, too",
        _line(
            "protocol.task.task_core",
            "return self.state.life is TaskLifecycle.RUNNING and not self.state.buffer.full",
            "return not self.state.buffer.full",
        ),
        "chaos-asked",
    ),
    EngineMutant(
        "time-passes-rows-that-wait",
        "a task says a time while rows wait that came before it",
        _line(
            "steps.enrich.asked_rows",
            "return time_us if held is None else min(time_us, held)",
            "return time_us",
        ),
        "chaos-asked",
    ),
    EngineMutant(
        "loaded-rows-not-asked",
        "rows that wait in a checkpoint are not asked for again",
        _line("steps.chain", "step.on_loaded()", "pass"),
        "chaos-asked",
        seed=1,
    ),
    EngineMutant(
        "lost-rows-answered",
        "a task lets rows of key groups leave that it has lost",
        _line("steps.chain", "step.on_groups_lost(share)", "pass"),
        "chaos-asked",
        seed=12,
    ),
    EngineMutant(
        "answers-overtake",
        "a row leaves before the rows of its key that came earlier",
        _line(
            "steps.enrich.pending_rows",
            "self._take_first_of_line(row.line, leaving)",
            "self._leave(number, leaving)",
        ),
        "chaos-asked",
    ),
    EngineMutant(
        "migrated-files-not-listed",
        "the first checkpoint behind a migration has none of the migrated state",
        _line(
            "keyed_state.keyed_backend",
            "migrated = () if self._migrated is None else tuple(self._migrated.files)",
            "migrated = ()",
        ),
        "chaos-migrated",
        seed=3,
    ),
    EngineMutant(
        "joiner-has-no-copy",
        "a task that joins has an empty side table",
        _line(
            "protocol.task.task_rescale",
            "files = state.entries(event.root, share, copies=joins)  # others have the copies already",
            "files = state.entries(event.root, share, copies=False)",
        ),
        "chaos-sided",
        seed=46,
    ),
    EngineMutant(
        "gainer-loads-an-older-copy",
        "a task that gains groups goes back to the side table at the barrier",
        _line(
            "protocol.task.task_rescale",
            "files = state.entries(event.root, share, copies=joins)  # others have the copies already",
            "files = state.entries(event.root, share, copies=True)",
        ),
        "chaos-sided",
        seed=1,
    ),
    EngineMutant(
        "joiner-misses-changes",
        "changes of a side table behind the barrier of a rescale are not sent to tasks that join",
        _line(
            "engine.router",
            "return [RoutedRows(old, new, data) for old, new in self._pairs]",
            "return [RoutedRows(old, new, data) for old, new in self._pairs if old is not None]",
        ),
        "chaos-sided",
        seed=23,
    ),
    EngineMutant(
        "copies-lose-rows-with-key-groups",
        "a task forgets the rows of a side table whose key groups it has lost",
        _line("keyed_state.keyed_backend", "if name not in self._copies:", "if True:"),
        "chaos-sided",
        seed=3,
    ),
    EngineMutant(
        "every-task-stores-its-copy",
        "a checkpoint has a side table once for each task",
        _line(
            "keyed_state.keyed_backend",
            "stored = (name for name in ended if self._stores_copies or name not in self._copies)",
            "stored = (name for name in ended)",
        ),
        "chaos-sided",
    ),
    EngineMutant(
        "loaded-copy-not-shown",
        "functions read an empty side table after a restore",
        _line("steps.chain", "copy.on_loaded()", "pass"),
        "chaos-sided",
    ),
    EngineMutant(
        "silent-input-holds-no-time",
        "the time of a task is that of one input while the other one has said none, as behind each rescale",
        _line(
            "protocol.task.input_progress",
            "for key, mark in self._marks.items():",
            "for key, mark in ((k, m) for k, m in self._marks.items() if m is not None):",
        ),
        "chaos-connected",
    ),
    EngineMutant(
        "table-loaded-at-its-first-word",
        "a table counts as loaded when its input has said any time",
        _line(
            "steps.load_first",
            "if time_us >= self._behind.get(edge, NOTHING_DUE):",
            "if True:",
        ),
        "chaos-tabled",
    ),
    EngineMutant(
        "rows-overtake-those-that-wait",
        "a row is joined at once though rows of its key wait that came before it",
        _line("steps.load_first", "if not self._behind and not self.waiting:", "if not self._behind:"),
        "chaos-tabled",
    ),
    EngineMutant(
        "time-passes-rows-that-wait-for-a-table",
        "a join says a time while rows wait that came before it",
        _line(
            "steps.load_first",
            "return self.inner.on_watermark(min(time_us, self._held_us) if self.waiting else time_us)",
            "return self.inner.on_watermark(time_us)",
        ),
        "chaos-tabled",
    ),
    EngineMutant(
        "loaded-rows-not-counted",
        "rows that wait in a checkpoint never leave",
        _line("steps.load_first", "self.waiting = len(found)", "self.waiting = 0"),
        "chaos-tabled",
    ),
    EngineMutant(
        "known-rows-overtake",
        "a row whose answer is remembered leaves before the rows of its key that wait",
        _line(
            "steps.lookup.lookup_step",
            "return [None if waits(line) else find(line, now_s) for line in lines]",
            "return [find(line, now_s) for line in lines]",
        ),
        "chaos-looked-up",
        seed=1,
    ),
    EngineMutant(
        "looked-up-rows-stay",
        "rows that have left a lookup are looked up again behind a restore",
        _line("steps.lookup.lookup_step", "self._rows.delete(numbers)", "self._rows._forget(numbers)"),
        "chaos-looked-up",
    ),
    EngineMutant(
        "answers-in-the-order-of-the-server",
        "rows get the answer of the key that stands where the server has their row",
        _line(
            "connectors.postgres.postgres_lookup",
            "numbers = asked.column(0).take(pc.subtract(rows.column(0), 1)).to_pylist()",
            "numbers = list(range(rows.num_rows))",
        ),
        "chaos-looked-up",
    ),
    EngineMutant(
        "time-passes-rows-that-are-looked-up",
        "a lookup says a time while rows wait that came before it",
        _line("steps.enrich.asked_rows_step", "return self._rows.reached(time_us)", "return time_us"),
        "chaos-looked-up",
        seed=4,
    ),
)
MUTANTS = {mutant.name: mutant for mutant in (*_TABLE, *OUTPUT_MUTANTS)}
