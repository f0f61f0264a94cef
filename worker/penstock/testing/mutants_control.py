"""Mutants of the rules of epochs, collection, the ends of a job and rescales; general mistakes."""

from penstock.testing.rules import Mutant, line

MUTANTS = (
    Mutant(
        "entries-not-narrowed",
        "narrow",
        line(
            "protocol.entries",
            "return replace(file, groups=intersect(file.groups, share))",
            "return file",
        ),
        "rescale-down",
        0,
    ),
    Mutant(
        "lost-groups-still-listed",
        "narrow",
        line(
            "protocol.files",
            "narrowed = (replace(f, groups=subtract(f.groups, share)) for f in self.committed)",
            "narrowed = iter(self.committed)",
        ),
        "around",
        0,
    ),
    Mutant(
        "gained-entries-forgotten",
        "narrow",
        line("protocol.files", "self.committed = in_order((*self.committed, *files))", "pass"),
        "rescale-down",
        0,
    ),
    Mutant(
        "whole-foreign-file",
        "foreign",
        line(
            "testing.state",
            "if group_of(key[0], self._groups) not in shown:",
            "if False:",
        ),
        "around",
        0,
    ),
    Mutant(
        "listed-files-collected",
        "collect",
        line("protocol.collection", "if name in listed:", "if False:"),
        "checkpoint",
        0,
    ),
    Mutant(
        "newer-files-collected",
        "collect",
        line(
            "protocol.collection",
            "return parts.epoch <= lead.latest.epoch",
            "return parts.epoch <= lead.latest.epoch + 1",
        ),
        "around",
        0,
    ),
    Mutant(
        "preload-not-pinned",
        "collect",
        line("protocol.rescale", "pinned=(self.base,),", "pinned=(),"),
        "slow-joiner",
        0,
    ),
    Mutant(
        "missed-file-listed",
        "missed",
        line("protocol.files", "self._proposed[epoch] = listing", "self.committed = listing"),
        "rescale-fails",
        2,
    ),
    Mutant(
        "any-volume-is-ours",
        "root-file",
        line("protocol.opening", "self.checked = owner == lead.uid", "self.checked = True"),
        "object-lost",
        0,
    ),
    Mutant(
        "older-epoch-restored",
        "older",
        line("protocol.restore", "and not wanted.allow_output_replay", "and False"),
        "restore-refused",
        0,
    ),
    Mutant(
        "empty-without-leave",
        "empty",
        line(
            "protocol.restore",
            "if at.max_epoch > 0 and not wanted.allow_output_replay:",
            "if False:",
        ),
        "empty-refused",
        0,
    ),
    Mutant(
        "empty-before-published",
        "empty",
        line(
            "protocol.restore",
            "return wanted.empty and not wanted.drop_unpublished and not lead.published()",
            "return False",
        ),
        "begin-empty-hidden",
        0,
    ),
    Mutant(
        "empty-with-the-old-table",
        "empty",
        line(
            "protocol.recovery",
            "lead.file = None  # as the object says: no attempt yet, or a restore took it away",
            "pass",
        ),
        "begin-empty",
        0,
    ),
    Mutant(
        "draft-admitted-after-restore",
        "draft",
        line(
            "protocol.office",
            "self.recovery.drop()  # drafted from another checkpoint than will be restored",
            "pass",
        ),
        "begin-empty-gathering",
        0,
    ),
    Mutant(
        "ended-before-publication",
        "final",
        line(
            "protocol.office",
            "if lead.is_final():",
            "if lead.latest.epoch and all(lead.life(m).status.exhausted for m in lead.admitted()):",
        ),
        "chaos",
        0,
    ),
    Mutant(
        "one-split-read-is-enough",
        "unseen",
        line(
            "protocol.source",
            "return self._bounded and all(self._finished.values())",
            "return self._bounded and any(self._finished.values())",
        ),
        "chaos",
        0,
    ),
    Mutant(
        "start-before-ready",
        "start",
        line(
            "protocol.recovery",
            "waiting = [m for m in lead.admitted() if not _ready(lead, m)]",
            "waiting = []",
        ),
        "checkpoint",
        0,
    ),
    Mutant(
        "start-before-published",
        "start",
        line("protocol.recovery", "if lead.published():", "if True:"),
        "commit-crash",
        0,
    ),
    Mutant(
        "committed-number-only",
        "gone",
        line(
            "protocol.recovery",
            "for count in (lead.target(), lead.latest.workers):",
            "for count in (lead.latest.workers,):",
        ),
        "worker-gone",
        0,
    ),
    Mutant(
        "rows-to-the-old-owner",
        "leaving",
        line(
            "protocol.holding",
            "to = piece.new",
            "to = piece.old",
        ),
        "around",
        0,
    ),
    Mutant(
        "watermark-while-frozen",
        "frozen",
        line(
            "protocol.switch",
            "return []  # no mark leaves from a rescale barrier until the task has resumed",
            "pass",
        ),
        "around-window",
        0,
    ),
    Mutant(
        "version-in-a-later-swap",
        "one-swap",
        line("protocol.epochs", "version=table.version,", "version=at.version,"),
        "around",
        0,
    ),
    Mutant(
        "held-rows-sent-early",
        "resume",
        line(
            "protocol.holding",
            "if to is not None and (piece.old == to or to not in self._closed):",
            "if to is not None:",
        ),
        "around",
        0,
    ),
    Mutant(
        "channels-of-the-old-version",
        "resume",
        line("protocol.switch", "self.aligner.replace(inputs)", "pass"),
        "around",
        0,
    ),
    # General mistakes, beside the rules.
    Mutant(
        "held-rows-lost-on-abort",
        "leaving",
        line(
            "protocol.holding",
            "sends = [Send(p.old, p.data) for p in self._held if p.old is not None]",
            "sends = []",
        ),
        "rescale-fails",
        1,
    ),
    Mutant(
        "published-before-commit",
        "published",
        line(
            "protocol.task",
            "actions.append(ev.Ack(event.term, event.epoch, manifest))",
            "actions += [ev.Ack(event.term, event.epoch, manifest), "
            "ev.Publish(event.epoch, event.parts.handles)]",
        ),
        "checkpoint",
        0,
    ),
    Mutant(
        "one-acknowledgement-missing",
        "one-swap",
        line(
            "protocol.epochs",
            "if len(flight.acks) < len(flight.tasks):",
            "if len(flight.acks) < len(flight.tasks) - 1:",
        ),
        "checkpoint",
        0,
    ),
    Mutant(
        "ack-of-another-term",
        "announce",
        line(
            "protocol.epochs",
            "if ack.attempt != lead.latest.attempt or ack.term != lead.term:",
            "if False:",
        )
        + line("protocol.office", "if envelope.term != lead.term:", "if False:"),
        "late-acks",
        0,
    ),
    Mutant(
        "barrier-does-not-block",
        "all-outputs",
        line("protocol.align", "self._blocked[channel] = None", "self._ended[channel] = None"),
        "around",
        1,
    ),
)
