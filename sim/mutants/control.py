"""Mutants of the rules of epochs, collection, the ends of a job and rescales; general mistakes."""

from sim.mutants.rules import Mutant, line

MUTANTS = (
    Mutant(
        "entries-not-narrowed",
        "narrow",
        line(
            "penstock.protocol.entries",
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
            "penstock.protocol.files",
            "narrowed = (replace(f, groups=subtract(f.groups, share)) for f in self.committed)",
            "narrowed = iter(self.committed)",
        ),
        "around",
        0,
    ),
    Mutant(
        "gained-entries-forgotten",
        "narrow",
        line(
            "penstock.protocol.files",
            "self.committed = in_order((*self.committed, *files))",
            "pass",
        ),
        "rescale-down",
        0,
    ),
    Mutant(
        "whole-foreign-file",
        "foreign",
        line(
            "sim.cluster.task_table",
            "if group_of(key[0], self._groups) not in shown:",
            "if False:",
        ),
        "around",
        0,
    ),
    Mutant(
        "listed-files-collected",
        "collect",
        line("penstock.protocol.collection", "if name in listed:", "if False:"),
        "checkpoint",
        0,
    ),
    Mutant(
        "newer-files-collected",
        "collect",
        line(
            "penstock.protocol.collection",
            "return parts.epoch <= lead.latest.epoch",
            "return parts.epoch <= lead.latest.epoch + 1",
        ),
        "around",
        0,
    ),
    Mutant(
        "preload-not-pinned",
        "collect",
        line("penstock.protocol.rescale", "pinned=(self.base,),", "pinned=(),"),
        "slow-joiner",
        0,
    ),
    Mutant(
        "missed-file-listed",
        "missed",
        line(
            "penstock.protocol.files", "self._proposed[epoch] = listing", "self.committed = listing"
        ),
        "rescale-fails",
        2,
    ),
    Mutant(
        "any-volume-is-ours",
        "root-file",
        line(
            "penstock.protocol.opening", "self.checked = owner == lead.uid", "self.checked = True"
        ),
        "object-lost",
        0,
    ),
    Mutant(
        "older-epoch-restored",
        "older",
        line("penstock.protocol.restore", "and not wanted.allow_output_replay", "and False"),
        "restore-refused",
        0,
    ),
    Mutant(
        "matched-by-place",
        "by-name",
        line(
            "penstock.protocol.switch",
            "files = entries_of(self.root, self.stage.steps, share) if self.root else ()",
            "files = entries_of(self.root, self.root.steps[self.task.stage], share)"
            " if self.root and self.task.stage < len(self.root.steps) else ()",
        ),
        "changed-plan",
        0,
    ),
    Mutant(
        "dropped-in-words-only",
        "dropped",
        line("penstock.protocol.restore", "if left != root:", "if False:"),
        "dropped-state",
        0,
    ),
    Mutant(
        "two-plans-in-an-attempt",
        "one-plan",
        line(
            "penstock.protocol.roster",
            "and life.heartbeat.fingerprint == fingerprint",
            "and life.heartbeat.fingerprint",
        ),
        "changed-plan",
        0,
    ),
    Mutant(
        "empty-without-leave",
        "empty",
        line(
            "penstock.protocol.restore",
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
            "penstock.protocol.restore",
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
            "penstock.protocol.recovery",
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
            "penstock.protocol.office",
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
            "penstock.protocol.office",
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
            "penstock.protocol.source",
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
            "penstock.protocol.recovery",
            "waiting = [m for m in lead.admitted() if not _ready(lead, m)]",
            "waiting = []",
        ),
        "checkpoint",
        0,
    ),
    Mutant(
        "start-before-published",
        "start",
        line("penstock.protocol.recovery", "if lead.published():", "if True:"),
        "commit-crash",
        0,
    ),
    Mutant(
        "committed-number-only",
        "gone",
        line(
            "penstock.protocol.recovery",
            "for count in (lead.target(), lead.latest.workers):",
            "for count in (lead.latest.workers,):",
        ),
        "worker-gone",
        0,
    ),
    Mutant(
        "standstill-is-silence",
        "gap",
        line("penstock.protocol.desk", "self.absent_s += now - self.alarm", "pass"),
        "leader-stands-still",
        0,
    ),
    Mutant(
        "standstills-excuse-for-ever",
        "gap-limit",
        line(
            "penstock.protocol.desk",
            "return heard.at + timeout_s + min(self.absent_s - heard.absent_s, excused_s_max)",
            "return heard.at + timeout_s + self.absent_s - heard.absent_s",
        ),
        "leader-always-late",
        0,
    ),
    Mutant(
        "commit-clears-deaths",
        "restarts",
        line(
            "penstock.protocol.restarts",
            "if self.times and lead.desk.due(self.times[-1] + window_s):",
            "if self.times and lead.failures == 0:",
        ),
        "poison",
        0,
    ),
    Mutant(
        "deaths-begin-anew",
        "restarts-kept",
        line("penstock.protocol.restarts", "times=[desk.now] * deaths.count,", "times=[],"),
        "poison-and-leaders",
        0,
    ),
    Mutant(
        "rows-to-the-old-owner",
        "leaving",
        line(
            "penstock.protocol.holding",
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
            "penstock.protocol.switch",
            "return []  # no mark leaves from a rescale barrier until the task has resumed",
            "pass",
        ),
        "around-window",
        0,
    ),
    Mutant(
        "version-in-a-later-swap",
        "one-swap",
        line("penstock.protocol.epochs", "version=table.version,", "version=at.version,"),
        "around",
        0,
    ),
    Mutant(
        "held-rows-sent-early",
        "resume",
        line(
            "penstock.protocol.holding",
            "if to is not None and (piece.old == to or to not in self._closed):",
            "if to is not None:",
        ),
        "around",
        0,
    ),
    Mutant(
        "channels-of-the-old-version",
        "resume",
        line("penstock.protocol.switch", "self.aligner.replace(inputs)", "pass"),
        "around",
        0,
    ),
    Mutant(
        "drained-without-its-epoch",
        "drain",
        line(
            "penstock.protocol.draining",
            "return False  # whoever leads commits it or says that it is aborted",
            "return True",
        ),
        "drained",
        0,
    ),
    Mutant(
        "drained-waits-for-the-dead",
        "drain",
        line(
            "penstock.protocol.draining",
            "return True  # the attempt goes back to what is committed: nothing here is kept",
            "return False",
        ),
        "all-drained",
        0,
    ),
    Mutant(
        "unstaged-before-recorded",
        "staged",
        line(
            "penstock.protocol.lead",
            "if self.latest.published_through >= self.latest.epoch:",
            "if self.published():",
        ),
        "rescale-down",
        0,
    ),
    Mutant(
        "child-counts-from-one",
        "line",
        line(
            "penstock.protocol.restore",
            "newest = max(lead.latest.max_epoch, manifest.epoch)",
            "newest = lead.latest.max_epoch",
        ),
        "restore-elsewhere",
        0,
    ),
    Mutant(
        "newer-output-not-seen",
        "newer",
        line("penstock.protocol.output", "if found.newest <= origin.epoch:", "if True:"),
        "restore-elsewhere-late",
        0,
    ),
    Mutant(
        "copiers-share-names",
        "own-folder",
        line(
            "penstock.protocol.requests",
            'copying.folder = f"{lead.term}-{lead.me.incarnation}-{lead.desk.number()}"',
            'copying.folder = "files"',
        ),
        "two-copiers",
        0,
    ),
    Mutant(
        "index-before-the-files",
        "index-last",
        line(
            "penstock.protocol.requests",
            "copying.stage = Stage.COPYING",
            "copying.stage = Stage.COPIED",
        ),
        "two-copiers",
        0,
    ),
    # General mistakes, beside the rules.
    Mutant(
        "held-rows-lost-on-abort",
        "leaving",
        line(
            "penstock.protocol.holding",
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
            "penstock.protocol.task",
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
            "penstock.protocol.epochs",
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
            "penstock.protocol.epochs",
            "if ack.attempt != lead.latest.attempt or ack.term != lead.term:",
            "if False:",
        )
        + line("penstock.protocol.office", "if envelope.term != lead.term:", "if False:"),
        "late-acks",
        0,
    ),
    Mutant(
        "barrier-does-not-block",
        "all-outputs",
        line(
            "penstock.protocol.align",
            "self._blocked[channel] = None",
            "self._ended[channel] = None",
        ),
        "around",
        1,
    ),
)
