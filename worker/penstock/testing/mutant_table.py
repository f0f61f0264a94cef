"""Every rule that a published system broke, as one changed line that the simulation must notice.

A mutant names the rule by its words. Its scenario and seed are known to notice it; the same seed
passes on the core as it is. ``RULES`` lists the rules, so that none can be forgotten.
"""

from dataclasses import dataclass

from penstock.testing.patching import Patch


@dataclass(frozen=True, slots=True)
class Mutant:
    """One line of the core without its rule."""

    name: str
    rule: str
    patch: Patch
    scenario: str
    seed: int


RULES: dict[str, str] = {
    "attempt": "a stream of a higher attempt is held until the receiver has reset itself",
    "max-epoch": "new epochs exceed the highest ever committed, after a restore too",
    "break": "a stream that breaks inside an attempt is a rollback",
    "one-element": "a channel with nothing outstanding may always send one element",
    "all-outputs": "a barrier is put on all outputs before the next input is read",
    "time": "pending watermarks go before a barrier; channels say theirs again after a switch",
    "idle": "only a source declares idle, and never for time in which it was not asked",
    "announce": "a new term confirms the committed epoch and aborts only newer ones",
    "copies": "a cut copies values, not only the keys that changed",
    "delta": "a delta holds every change since the last epoch known committed",
    "carry": "handles of an aborted epoch are carried; only a reset discards, above its epoch",
    "unknown": "while a swap is undecided nothing is aborted or deleted",
    "published": "no epoch starts before the previous one is published",
    "names": "a file's name is never used twice",
    "narrow": "losing a group narrows entries, gaining one takes over the other's",
    "foreign": "of a foreign file only the gained range is taken",
    "collect": "only what no retained or pinned manifest lists is deleted; pinned before use",
    "missed": "a file that missed its epoch is never listed later",
    "root-file": "a volume that belongs to another object starts nothing",
    "older": "restoring an older epoch is refused unless replay is allowed",
    "final": "end of stream follows the publication of the final epoch",
    "unseen": "an input that is not read to its end keeps the final epoch from being taken",
    "start": "sources start when all are ready and the old output is visible",
    "gone": "while a member cannot come back the attempt goes on with the wanted number",
    "leaving": "nothing is sent to a task that leaves, and moving rows are held",
    "frozen": "no watermark and no idle mark leaves between a rescale barrier and resumption",
    "one-swap": "one swap commits the epoch and the version of a rescale",
    "resume": "held rows go when the receiver has announced the version; channels are its own",
}


def _line(module: str, line: str, mutated: str) -> Patch:
    return Patch(f"penstock.{module}", line, mutated)


_TABLE: tuple[tuple[str, str, Patch, str, int], ...] = (
    (
        "higher-attempt-accepted",
        "attempt",
        _line("protocol.admission", "if hello.attempt > self._attempt:", "if False:"),
        "chaos",
        0,
    ),
    (
        "lower-attempt-accepted",
        "attempt",
        _line("protocol.admission", "if hello.attempt < self._attempt:", "if False:"),
        "chaos",
        0,
    ),
    (
        "epochs-from-committed",
        "max-epoch",
        _line(
            "protocol.epochs",
            "return Epoch(max(lead.latest.max_epoch, self.last) + 1)",
            "return Epoch(max(lead.latest.epoch, self.last) + 1)",
        ),
        "restore-older",
        0,
    ),
    (
        "break-ignored",
        "break",
        _line(
            "protocol.recovery",
            "if broken is not None and broken.attempt == lead.latest.attempt:",
            "if False:",
        ),
        "chaos",
        0,
    ),
    (
        "large-element-stuck",
        "one-element",
        _line("protocol.channel", "return self._taken >= self._last_data", "return False"),
        "credit-of-one",
        0,
    ),
    (
        "barrier-on-first-output",
        "all-outputs",
        _line(
            "protocol.task",
            "actions += [ev.Send(channel, barrier) for channel in self.outputs]",
            "actions += [ev.Send(channel, barrier) for channel in self.outputs[:1]]",
        ),
        "checkpoint",
        0,
    ),
    (
        "watermark-after-barrier",
        "time",
        _line(
            "protocol.task",
            "actions += self.say()  # pending watermarks go before the barrier",
            "pass",
        ),
        "storm-window",
        0,
    ),
    (
        "watermark-overtaken-in-channel",
        "time",
        _line(
            "protocol.channel",
            "self._queue_trailing()  # a barrier never overtakes a pending watermark",
            "pass",
        ),
        "storm-window",
        0,
    ),
    (
        "watermarks-kept-over-rescale",
        "time",
        _line("protocol.switch", "self.time.restart()", "pass"),
        "storm-window",
        0,
    ),
    (
        "watermark-maximum",
        "time",
        _line(
            "protocol.watermark", "if low is None or said < low:", "if low is None or said > low:"
        ),
        "chaos-window",
        0,
    ),
    (
        "idle-while-waiting",
        "idle",
        _line("protocol.task", "self.splits.waited()", "pass"),
        "idle",
        0,
    ),
    (
        "announcement-confirms-nothing",
        "announce",
        _line(
            "protocol.task",
            "actions = self.commit(event.epoch, event.version)  # goes forward if it was a rescale",
            "actions = []",
        ),
        "chaos",
        0,
    ),
    (
        "cut-keeps-live-values",
        "copies",
        _line(
            "testing.state",
            "return tuple(sorted(self.values.items())), True",
            "return self.values.items(), True",
        ),
        "chaos",
        0,
    ),
    (
        "delta-since-last-cut",
        "delta",
        _line("protocol.ledger", "return self.committed", "return Epoch(cut.barrier.epoch - 1)"),
        "chaos",
        0,
    ),
    (
        "handles-dropped-on-abort",
        "carry",
        _line("protocol.sinks", "self._prepared += handles", "self._prepared = handles"),
        "chaos",
        0,
    ),
    (
        "reset-discards-committed",
        "carry",
        _line(
            "protocol.sinks",
            "return tuple(h for h in self._prepared if h not in kept)",
            "return self._prepared",
        ),
        "chaos",
        0,
    ),
    (
        "abort-while-undecided",
        "unknown",
        _line(
            "protocol.epochs",
            "if flight is None or lead.swaps.busy:  # once sent, its fate is the swap's",
            "if flight is None:",
        ),
        "chaos",
        0,
    ),
    (
        "rollback-while-undecided",
        "unknown",
        _line(
            "protocol.office",
            "if lead.phase in ATTEMPT_PHASES and not lead.swaps.busy:",
            "if lead.phase in ATTEMPT_PHASES:",
        ),
        "chaos",
        0,
    ),
    (
        "epoch-before-publication",
        "published",
        _line(
            "protocol.office",
            "if not lead.published():  # no epoch of any kind starts before the last one "
            "is published",
            "if False:",
        ),
        "chaos",
        0,
    ),
    (
        "names-without-life",
        "names",
        _line(
            "contract.names",
            'return BlobName(f"{term}-{epoch}-{life}-{number}{suffix}")',
            'return BlobName(f"{term}-{epoch}-x-{number}{suffix}")',
        ),
        "checkpoint",
        0,
    ),
    (
        "entries-not-narrowed",
        "narrow",
        _line(
            "protocol.entries",
            "return replace(file, groups=intersect(file.groups, share))",
            "return file",
        ),
        "rescale-up",
        0,
    ),
    (
        "lost-groups-still-listed",
        "narrow",
        _line(
            "protocol.files",
            "narrowed = (replace(f, groups=subtract(f.groups, share)) for f in self.committed)",
            "narrowed = iter(self.committed)",
        ),
        "rescale-up",
        0,
    ),
    (
        "gained-entries-forgotten",
        "narrow",
        _line("protocol.files", "self.committed = in_order((*self.committed, *files))", "pass"),
        "rescale-up",
        0,
    ),
    (
        "whole-foreign-file",
        "foreign",
        _line(
            "testing.state",
            "if group_of(key[0], self._groups) not in shown:",
            "if False:",
        ),
        "rescale-up",
        0,
    ),
    (
        "listed-files-collected",
        "collect",
        _line("protocol.collection", "if name in listed:", "if False:"),
        "checkpoint",
        0,
    ),
    (
        "newer-files-collected",
        "collect",
        _line(
            "protocol.collection",
            "return parts.epoch <= lead.latest.epoch",
            "return parts.epoch <= lead.latest.epoch + 1",
        ),
        "chaos",
        0,
    ),
    (
        "preload-not-pinned",
        "collect",
        _line("protocol.rescale", "pinned=(Retained(at.epoch, at.root),),", "pinned=(),"),
        "rescale-up",
        0,
    ),
    (
        "missed-file-listed",
        "missed",
        _line("protocol.files", "self._proposed[epoch] = listing", "self.committed = listing"),
        "chaos",
        0,
    ),
    (
        "any-volume-is-ours",
        "root-file",
        _line("protocol.opening", "self.checked = owner == lead.uid", "self.checked = True"),
        "object-lost",
        0,
    ),
    (
        "older-epoch-restored",
        "older",
        _line("protocol.restore", "and not wanted.allow_output_replay", "and False"),
        "restore-refused",
        0,
    ),
    (
        "ended-before-publication",
        "final",
        _line(
            "protocol.office",
            "if lead.is_final():",
            "if lead.latest.epoch and all(lead.life(m).status.exhausted for m in lead.admitted()):",
        ),
        "chaos",
        0,
    ),
    (
        "one-split-read-is-enough",
        "unseen",
        _line(
            "protocol.source",
            "return self._bounded and all(self._finished.values())",
            "return self._bounded and any(self._finished.values())",
        ),
        "chaos",
        0,
    ),
    (
        "start-before-ready",
        "start",
        _line(
            "protocol.recovery",
            "waiting = [m for m in lead.admitted() if not _ready(lead, m)]",
            "waiting = []",
        ),
        "checkpoint",
        0,
    ),
    (
        "start-before-published",
        "start",
        _line("protocol.recovery", "if lead.published():", "if True:"),
        "chaos",
        0,
    ),
    (
        "committed-number-only",
        "gone",
        _line(
            "protocol.recovery",
            "for count in (lead.target(), lead.latest.workers):",
            "for count in (lead.latest.workers,):",
        ),
        "worker-gone",
        0,
    ),
    (
        "rows-to-the-old-owner",
        "leaving",
        _line(
            "protocol.holding",
            "to = piece.new",
            "to = piece.old",
        ),
        "rescale-up",
        0,
    ),
    (
        "watermark-while-frozen",
        "frozen",
        _line(
            "protocol.switch",
            "return []  # no mark leaves from a rescale barrier until the task has resumed",
            "pass",
        ),
        "storm-window",
        0,
    ),
    (
        "version-in-a-later-swap",
        "one-swap",
        _line("protocol.epochs", "version=table.version,", "version=at.version,"),
        "rescale-up",
        0,
    ),
    (
        "held-rows-sent-early",
        "resume",
        _line(
            "protocol.holding",
            "if to is not None and (piece.old == to or to not in self._closed):",
            "if to is not None:",
        ),
        "rescale-up",
        0,
    ),
    (
        "channels-of-the-old-version",
        "resume",
        _line("protocol.switch", "self.aligner.replace(inputs)", "pass"),
        "rescale-up",
        0,
    ),
    # General mistakes, beside the rules.
    (
        "held-rows-lost-on-abort",
        "leaving",
        _line(
            "protocol.holding",
            "sends = [Send(p.old, p.data) for p in self._held if p.old is not None]",
            "sends = []",
        ),
        "storm",
        0,
    ),
    (
        "published-before-commit",
        "published",
        _line(
            "protocol.task",
            "actions.append(ev.Ack(event.term, event.epoch, manifest))",
            "actions += [ev.Ack(event.term, event.epoch, manifest), "
            "ev.Publish(event.epoch, event.parts.handles)]",
        ),
        "checkpoint",
        0,
    ),
    (
        "one-acknowledgement-missing",
        "one-swap",
        _line(
            "protocol.epochs",
            "if len(flight.acks) < len(flight.tasks):",
            "if len(flight.acks) < len(flight.tasks) - 1:",
        ),
        "checkpoint",
        0,
    ),
    (
        "command-of-an-old-attempt",
        "attempt",
        _line(
            "protocol.member",
            "if attempt != self.taken.attempt:  # of a rolled-back attempt, or before its Reset",
            "if False:",
        ),
        "chaos",
        0,
    ),
    (
        "late-barrier-counts",
        "announce",
        _line(
            "protocol.align",
            "if identity <= self._done or (self._current and identity < _identity(self._current)):",
            "if identity < self._done:",
        ),
        "chaos",
        0,
    ),
    (
        "ack-of-another-term",
        "announce",
        _line(
            "protocol.epochs",
            "if ack.attempt != lead.latest.attempt or ack.term != lead.term:",
            "if False:",
        ),
        "chaos",
        0,
    ),
    (
        "aborted-snapshot-acknowledged",
        "announce",
        _line("protocol.ledger", "return None if self._aborted else cut", "return cut"),
        "chaos",
        0,
    ),
    (
        "barrier-does-not-block",
        "all-outputs",
        _line("protocol.align", "self._blocked[channel] = None", "self._ended[channel] = None"),
        "checkpoint",
        0,
    ),
    (
        "sequence-not-checked",
        "break",
        _line("protocol.channel", "if sequence != self._arrived + 1:", "if False:"),
        "chaos",
        0,
    ),
)

MUTANTS: dict[str, Mutant] = {row[0]: Mutant(*row) for row in _TABLE}
CANARY = "published-before-commit"  # runs in every test run, and must fail
