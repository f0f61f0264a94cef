"""What happened between two statuses, in words: recoveries, leaders, rescales; and the summary.

Pure: times come from the statuses. What happens before a job runs for the first time is its start,
whatever numbers rise then.
"""

import re

from penstock.base.units import span_text
from penstock.cli.rates import short_seconds
from penstock.contract.status import (
    ENDED,
    CommittedRows,
    DeathStatus,
    InputSeen,
    JobState,
    JobStatus,
    RestartStatus,
    balance_text,
    full_text,
    late_text,
    passed_text,
    schemes_text,
    unlisted_texts,
    unread_text,
)

HOW_TO_READ = (
    "to read them, run a job of another name over a folder that has only them, or begin anew with"
    " all files: penstock run --fresh"
)


class Events:
    """Follows a run from status to status."""

    def __init__(self) -> None:
        self._first: JobStatus | None = None
        self._settled: JobStatus | None = None  # the newest status of a job that ran
        self._leader: int | None = None
        self._trouble: str | None = None
        self._unlisted: dict[str, str] = {}  # why, without numbers, by source
        self._full: frozenset[str] = frozenset()  # sinks that have had no room for long
        self._late_behind: int | None = None  # the newest epoch when a checkpoint was late
        self._workers = 0  # of the version that ran last
        self._inputs: dict[str, InputSeen] = {}
        self._deaths = 0  # the number of the newest that was told
        self._recoveries = self._rescales = self._elections = 0

    def add(self, now: JobStatus) -> list[str]:
        """Take a status; return a line for everything that has happened since the one before."""
        self._first = self._first or now
        said = [
            *self._died(now),
            *self._troubles(now),
            *self._listings(now),
            *self._fullness(now),
            *self._lateness(now),
            *self._leadership(now),
            *self._looks(now),
        ]
        before = self._settled
        if now.state is not JobState.RUNNING:
            return said
        self._settled = now
        if before is None:
            self._workers = now.wanted_workers
            return said
        if now.attempt > before.attempt:
            self._recoveries += 1
            said.append(_recovery(before, now))
        if now.version > before.version and now.wanted_workers != self._workers:
            self._rescales += 1
            said.append(f"rescaled: {self._workers} -> {now.wanted_workers} workers (version {now.version})")
            self._workers = now.wanted_workers
        if now.schemes != before.schemes:
            said.append(f"{schemes_text(now)} (version {now.version})")
        if now.balance != before.balance:
            said.append(f"{balance_text(now)} (version {now.version})")
        return said

    def _died(self, now: JobStatus) -> list[str]:
        """Say of each engine how it died, which restart follows of how many, what was in flight."""
        told = now.restarts
        fresh = [d for d in (told.newest if told else ()) if d.number > self._deaths]
        if told is None or not fresh:
            return []
        self._deaths = fresh[-1].number
        over = now.state in ENDED  # no restart follows the last one: the error tells of it
        return [line for d in fresh if not over or d is not fresh[-1] for line in lines_of(d, told)]

    def _troubles(self, now: JobStatus) -> list[str]:
        """Say what a job that goes on suffers from, a full disk for example, and when it is over.

        The lines behind the first are the user's own ones of a traceback. What ended a job is said
        by its error.
        """
        told = now.failure.splitlines() if now.failure and now.state not in ENDED else []
        trouble = told[0] if told else None
        known, self._trouble = self._trouble, trouble
        if trouble is None:
            return ["trouble is over"] if known is not None and now.state not in ENDED else []
        news = known is None or _cause(trouble) != _cause(known)
        return [f"trouble: {trouble}", *(f"  {line}" for line in told[1:])] if news else []

    def _listings(self, now: JobStatus) -> list[str]:
        """Say which source cannot be listed, when the reason changes, and when it is listed."""
        known, self._unlisted = self._unlisted, {each.name: re.sub("[0-9]+", "", each.because) for each in now.unlisted}
        told = zip(self._unlisted.items(), unlisted_texts(now), strict=True)
        said = [f"trouble: {text}" for (name, why), text in told if known.get(name) != why]
        over = [f"source {name!r} is listed" for name in known if name not in self._unlisted]
        return [*said, *([] if now.state in ENDED else over)]

    def _fullness(self, now: JobStatus) -> list[str]:
        """Say which sink has taken no rows for long, and when it takes some again."""
        told = {s.name: text for s in now.sinks if s.since_us is None and (text := full_text(s))}
        known, self._full = self._full, frozenset(told)
        over = [f"sink {name!r} takes rows again" for name in sorted(known - self._full)]
        said = [f"trouble: {text}" for name, text in told.items() if name not in known]
        return said if now.state in ENDED else [*said, *over]

    def _lateness(self, now: JobStatus) -> list[str]:
        """Say when a checkpoint is late, and when one is committed again."""
        epoch = 0 if now.checkpoint is None else now.checkpoint.epoch
        late, behind = late_text(now), self._late_behind
        if behind is None and late:
            self._late_behind = epoch
            return [f"trouble: {late}"]
        if behind is None or epoch <= behind:
            return []
        self._late_behind = None
        return [] if now.state in ENDED else ["a checkpoint is committed again"]

    def _looks(self, now: JobStatus) -> list[str]:
        """Say of each input which files are not read, and what is passed over: when it changes."""
        said: list[str] = []
        for seen in now.inputs:
            before = self._inputs.get(seen.step, InputSeen(seen.path, 0))
            self._inputs[seen.step] = seen
            unread, passed = unread_text(seen), passed_text(seen)
            if passed != passed_text(before):
                said.append(passed or f"input of {seen.step}: nothing is passed over any more")
            if unread != unread_text(before):
                gone = f"input of {seen.step}: all its files are in the checkpoint"
                said.append(f"{unread}; {HOW_TO_READ}" if unread else gone)
        return said

    def _leadership(self, now: JobStatus) -> list[str]:
        leader = next((w.ordinal for w in now.workers if w.leader), None)
        if leader is None:
            return []
        known, self._leader = self._leader, leader
        if known is None or known == leader or self._settled is None:
            return []
        self._elections += 1
        return [f"leader: worker {leader} leads now, worker {known} no longer (term {now.term})"]

    def elapsed_s(self, time_us: int) -> float:
        """Return the seconds since the first status."""
        return 0.0 if self._first is None else max(0.0, (time_us - self._first.time_us) / 1e6)

    def summary(self, last: JobStatus) -> list[str]:
        """Say in a few lines what became of the run."""
        epoch = last.checkpoint.epoch if last.checkpoint is not None else 0
        committed = f"committed through epoch {epoch}" if epoch else "nothing committed"
        after = short_seconds(self.elapsed_s(last.time_us))
        happened = [
            _times(self._recoveries, "recovery", "recoveries"),
            _times(self._rescales, "rescale", "rescales"),
            _times(self._elections, "leader change", "leader changes"),
        ]
        parts = [f"{last.job}: {last.state} after {after}", committed, *filter(None, happened)]
        lines = [", ".join(parts)]
        if not last.steps and last.state is JobState.FAILED:
            return lines  # refused at its start: no row was read or written
        if rows := _committed_rows(last):
            lines.append(", ".join(rows))
        if lost := _lost_rows(last):
            # Counters begin anew with an attempt.
            since = "since the last recovery: " if self._recoveries else ""
            lines.append(since + ", ".join(lost))
        lines += filter(None, map(unread_text, last.inputs))
        # A recovery or a rescale makes counters that say less than was handed over.
        exact = not self._recoveries and not self._rescales
        return [*lines, *_uncommitted(last, exact=exact)]


def _cause(trouble: str) -> str:
    """Leave out what differs between failures of one cause: their numbers, and the file.

    A full disk fails now one file, now another.
    """
    numberless = re.sub(r"\b(checkpoint|epoch|attempt) \d+", r"\1", trouble)
    return re.sub(r"/\S+", "", numberless)


def _committed_rows(last: JobStatus) -> list[str]:
    """Spell what is committed of each source and sink: in this run, and in all."""
    sinks = {s.name for s in last.sinks}
    if not sinks:  # no engine has told which steps are sinks
        return [f"{r.step} {_this_run(r)}" for r in last.committed]
    return [f"{r.step} {'wrote' if r.step in sinks else 'read'} {_this_run(r)}" for r in last.committed]


def _this_run(rows: CommittedRows) -> str:
    if rows.before is None:
        return f"{rows.rows:,} rows in all"
    here = f"{rows.rows - rows.before:,} rows"
    return f"{here} ({rows.rows:,} in all)" if rows.before else here


def _uncommitted(last: JobStatus, *, exact: bool) -> list[str]:
    """Say that rows were handed over behind the newest checkpoint, and what becomes of them.

    ``exact``: the counters of the steps are those of the whole run.
    """
    if last.state is JobState.FINISHED or not last.steps:
        return []
    if last.checkpoint is None:
        behind, since = "nothing is committed", ""
        done = {last.steps[0].name: 0}
    else:
        behind, since = f"epoch {last.checkpoint.epoch} is the last that is committed", " after it"
        done = {r.step: r.rows - r.before for r in last.committed if r.before is not None}
    unknown = [f"{behind}: rows that were read{since}, if any, are rolled back; the next run reads them again"]
    # Counters of a failed task end with its last report, which may be older than the checkpoint.
    failed = last.state is JobState.FAILED
    if not exact or not done:
        return unknown
    sinks = {s.name for s in last.sinks}
    open_rows = {s.name: max(0, s.rows_in - done[s.name]) for s in last.steps if s.name in done}
    read = sum(rows for name, rows in open_rows.items() if name not in sinks)
    given = sum(rows for name, rows in open_rows.items() if name in sinks)
    if not read and not given:
        return unknown if failed else []
    least = "at least " if failed else ""
    more = f", {given:,} were given to sinks" if given else ""
    return [
        f"{behind}: {least}{read:,} rows were read{since}{more}; they are rolled back, and the"
        " next run reads them again"
    ]


def lines_of(death: DeathStatus, among: RestartStatus) -> list[str]:
    """Say how an engine died, which restart that is of how many, and what was in flight."""
    first, *more = death.text.splitlines() or [""]
    which = f"restart {death.count} of {among.limit} within {span_text(among.window_s)}"
    return [f"worker {death.worker}: {first}: {which}", *(f"  {line}" for line in more)]


def _recovery(before: JobStatus, now: JobStatus) -> str:
    epoch = now.checkpoint.epoch if now.checkpoint is not None else 0
    to = f"epoch {epoch}" if epoch else "the beginning"
    took = short_seconds((now.time_us - before.time_us) / 1e6)
    return (
        f"recovered: back to {to}, runs again after {took} (attempt {now.attempt}); the rows of each"
        " step are counted from 0 again"
    )


def _times(count: int, one: str, many: str) -> str:
    return "" if not count else f"{count:,} {one if count == 1 else many}"


def _lost_rows(last: JobStatus) -> list[str]:
    counted = (
        (sum(s.late_rows for s in last.steps), "late row", "late rows"),
        (
            sum(s.untimed_rows for s in last.steps),
            "row without event time",
            "rows without event time",
        ),
        (sum(s.dead_rows for s in last.steps), "dead-letter row", "dead-letter rows"),
        (sum(s.shed_rows for s in last.steps), "shed row", "shed rows"),
    )
    return [_times(*count) for count in counted if count[0]]
