"""Mutants of the rules of streams, time, snapshots and files.

Each mutant has a name, the rule that it breaks (``rules.RULES``), the changed line, and the scenario
and the seed with which a simulation notices it.
"""

from sim.mutants.rules import Mutant, line

MUTANTS = (
    Mutant(
        "higher-attempt-accepted",
        "attempt",
        line("penstock.protocol.channel.admission", "if hello.attempt > self._attempt:", "if False:"),
        "search-admission",
        0,
    ),
    Mutant(
        "lower-attempt-accepted",
        "attempt",
        line("penstock.protocol.channel.admission", "if hello.attempt < self._attempt:", "if False:"),
        "search-admission",
        0,
    ),
    Mutant(
        "epochs-from-committed",
        "max-epoch",
        line(
            "penstock.protocol.leader.checkpoint_coordinator",
            "return Epoch(max(state.latest.max_epoch, self.last) + 1)",
            "return Epoch(max(state.latest.epoch, self.last) + 1)",
        ),
        "restore-older",
        0,
    ),
    Mutant(
        "break-ignored",
        "break",
        line(
            "penstock.protocol.leader.rollback",
            "if broken is None or broken.attempt != state.latest.attempt:",
            "if True:",
        ),
        "breaks",
        0,
    ),
    Mutant(
        "large-element-stuck",
        "one-element",
        line(
            "penstock.protocol.channel.flow_control",
            "return self._taken >= self._last_data",
            "return False",
        ),
        "credit-of-one",
        0,
    ),
    Mutant(
        "barrier-on-first-output",
        "all-outputs",
        line(
            "penstock.protocol.task.task_core",
            "actions += [ev.Send(channel, barrier) for channel in state.outputs]",
            "actions += [ev.Send(channel, barrier) for channel in state.outputs[:1]]",
        ),
        "checkpoint",
        0,
    ),
    Mutant(
        "watermark-after-barrier",
        "time",
        line(
            "penstock.protocol.task.task_core",
            "actions += state.send_marks()  # pending watermarks go before the barrier",
            "pass",
        ),
        "aimed-window",
        10,
    ),
    Mutant(
        "watermark-overtaken-in-channel",
        "time",
        line(
            "penstock.protocol.channel.flow_control",
            "self._queue_trailing()  # a barrier never overtakes a pending watermark",
            "pass",
        ),
        "open-buffers",
        0,
    ),
    Mutant(
        "watermarks-kept-over-rescale",
        "time",
        line("penstock.protocol.task.task_rescale", "state.time.restart()", "pass"),
        "around-window",
        4,
    ),
    Mutant(
        "watermark-maximum",
        "time",
        line(
            "penstock.protocol.task.input_progress",
            "if low is None or mark < low:",
            "if low is None or mark > low:",
        ),
        "chaos-window",
        0,
    ),
    Mutant(
        "watermark-of-the-first-input",
        "time",
        line(
            "penstock.protocol.task.input_progress",
            "if low is None or mark < low:",
            "if low is None:",
        ),
        "chaos-window",
        0,
    ),
    Mutant(
        "join-takes-the-time-of-one-input",
        "both-inputs",
        line(
            "penstock.protocol.task.input_progress",
            "if key in self._idle:",
            "if key in self._idle or mark is None:",
        ),
        "chaos-interval",
        0,
    ),
    Mutant(
        "join-cuts-at-the-barrier-of-one-input",
        "both-inputs",
        line(
            "penstock.protocol.task.input_progress",
            "if any(c not in self._blocked and c not in self._ended for c in self._channels):",
            "if any(c not in self._blocked and c not in self._ended for c in [*self._channels][:1]):",
        ),
        "chaos-interval",
        7,
    ),
    Mutant(
        "said-before-fired",
        "fire",
        line(
            "penstock.protocol.task.task_state",
            "return None if heard is None or reached is None else min(heard, reached)",
            "return heard",
        ),
        "firing",
        1,
    ),
    Mutant(
        "said-before-timers-fired",
        "fire",
        line(
            "penstock.protocol.task.task_state",
            "return None if heard is None or reached is None else min(heard, reached)",
            "return heard",
        ),
        "around-timer",
        1,
    ),
    Mutant(
        "time-heard-is-stored-with-timers",
        "fire",
        line(
            "penstock.protocol.task.task_core",
            "return SnapshotInProgress(barrier, state.time.task_us, self.exhausted, firing)",
            "return SnapshotInProgress(barrier, state.heard_us, self.exhausted, firing)",
        ),
        "aimed-timer",
        2,
    ),
    Mutant(
        "gained-groups-without-their-time",
        "group-times",
        line("penstock.protocol.state_entries", "found += _times(manifest, mine)", "found += ()"),
        "chaos-timer",
        11,
    ),
    Mutant(
        "time-heard-is-stored",
        "fire",
        line(
            "penstock.protocol.task.task_core",
            "return SnapshotInProgress(barrier, state.time.task_us, self.exhausted, firing)",
            "return SnapshotInProgress(barrier, state.heard_us, self.exhausted, firing)",
        ),
        "firing",
        13,
    ),
    Mutant(
        "last-epoch-before-fired",
        "fire",
        line(
            "penstock.protocol.task.task_core",
            "if barrier.kind is Kind.FINAL and (firing := state.advance()):",
            "if (firing := ()):",
        ),
        "chaos-cascade",
        0,
    ),
    Mutant(
        "bounded-splits-idle",
        "idle",
        line(
            "penstock.protocol.task.input_progress",
            "self._idle_after_s = None if bounded else idle_after_s  # a bounded split is never idle",
            "self._idle_after_s = idle_after_s",
        ),
        "idle",
        0,
    ),
    Mutant(
        "committed-epoch-aborted",
        "announce",
        line(
            "penstock.protocol.leader.checkpoint_coordinator",
            "if open_epoch > at.epoch and open_epoch != in_flight:",
            "if open_epoch >= at.epoch > 0 and open_epoch != in_flight:",
        ),
        "messages-lost",
        0,
    ),
    Mutant(
        "announcement-aborts-the-committed",
        "announce",
        line(
            "penstock.protocol.task.task_core",
            "actions = self.state.commit(event.epoch, event.version)  # goes forward if it was a rescale",
            "actions = self.rescale.give_up(event.term, event.epoch)",
        ),
        "deposed",
        0,
    ),
    Mutant(
        "delta-since-last-cut",
        "delta",
        line(
            "penstock.protocol.task.snapshot_ledger",
            "return self.committed",
            "return Epoch(cut.barrier.epoch - 1)",
        ),
        "rescale-fails",
        33,
    ),
    Mutant(
        "handles-dropped-on-abort",
        "carry",
        line(
            "penstock.protocol.task.snapshot_ledger",
            "self._prepared += handles",
            "self._prepared = handles",
        ),
        "lease-lost",
        17,
    ),
    Mutant(
        "reset-discards-committed",
        "carry",
        line(
            "penstock.protocol.task.snapshot_ledger",
            "return tuple(h for h in self._prepared if h not in kept)",
            "return self._prepared",
        ),
        "swap-unknown-engine-dies",
        0,
    ),
    Mutant(
        "barrier-heard-again",
        "once",
        line(
            "penstock.protocol.task.input_progress",
            "if identity <= self._done or (self._current and identity < _identity(self._current)):",
            "if channel and identity <= self._done:",
        ),
        "checkpoint",
        0,
    ),
    Mutant(
        "abort-while-undecided",
        "unknown",
        line(
            "penstock.protocol.leader.checkpoint_coordinator",
            "if state.cas.busy:  # the swap may be the commit: only its outcome decides about the epoch",
            "if False:",
        ),
        "swap-unknown",
        1,
    ),
    Mutant(
        "rollback-while-undecided",
        "unknown",
        line(
            "penstock.protocol.leader.term_controller",
            "if state.phase in ATTEMPT_PHASES and not state.cas.busy:",
            "if state.phase in ATTEMPT_PHASES:",
        )
        + line(
            "penstock.protocol.leader.recovery",
            "if state.root is not None and state.root.epoch == at.epoch:",
            "if state.root is not None:",
        ),
        "swap-unknown-engine-dies",
        7,
    ),
    Mutant(
        "epoch-before-publication",
        "published",
        line(
            "penstock.protocol.leader.term_controller",
            "if not state.published():  # no epoch starts before the one before it is published",
            "if False:",
        ),
        "begin-empty-hidden",
        0,
    ),
    Mutant(
        "names-without-life",
        "names",
        line(
            "penstock.contract.ids",
            'return BlobName(f"{term}-{epoch}-{life}-{number}{suffix}")',
            'return BlobName(f"{term}-{epoch}-x-{number}{suffix}")',
        ),
        "checkpoint",
        0,
    ),
    Mutant(
        "windows-without-pace",
        "pace",
        line(
            "penstock.protocol.channel.pace",
            "wanted = {c: max(least, share * is_active) for c, is_active in active.items()}",
            "wanted = dict.fromkeys(active, 1 << 23)",
        ),
        "slow-step",
        0,
    ),
    Mutant(
        "elements-taken-whole",
        "slice",
        line(
            "penstock.protocol.channel.pace",
            "self.slice_rows = max(int(wanted), 1)",
            "self.slice_rows = 1 << 30",
        ),
        "slow-step",
        0,
    ),
    Mutant(
        "no-fixed-cost",
        "fixed-cost",
        line(
            "penstock.protocol.channel.pace",
            "fixed_s, row_s = self._line() or (0.0, 0.0)",
            "fixed_s, row_s = 0.0, 0.0",
        ),
        "slow-call",
        0,
    ),
    Mutant(
        "much-at-first",
        "slow-start",
        line(
            "penstock.protocol.channel.pace",
            "window = max(CREDIT_FIRST_BYTES // len(all_channels), CREDIT_FIRST_CHANNEL_BYTES_MIN)",
            "window = 1 << 23",
        ),
        "slow-step",
        0,
    ),
    Mutant(
        "slices-lose-charge",
        "charge",
        line(
            "penstock.protocol.channel.flow_control",
            "rest = data.charge - charge",
            "rest = data.charge // data.rows * left",
        ),
        "slow-step",
        0,
    ),
    Mutant(
        "joiners-published-nothing",
        "joiner",
        line(
            "penstock.protocol.engine.engine_core",
            "lowest = min((t.marks.published for t in tasks), default=at.committed)",
            "lowest = min((t.marks.published for t in tasks if t.marks.resumed), default=Epoch(0))",
        ),
        "deposed",
        0,
    ),
)
