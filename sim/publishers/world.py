"""One run: epochs are written, committed and published, while processes die, stand still and lose answers.

The world is the leader, the workers' processes and the user. It gives one order at a time to the present worker. When
that worker dies, or stands still for too long, a new one takes its place; the old one may go on later. The user reads
the text of an error, and gives the remedy that it names. Judges look when an epoch counts as published, and again
when everybody who was left behind has come to an end:

E  each row of a committed epoch is visible once. Only what a user has given up, or what the target refuses and could
   not be known before, may be missing; only what a user has had published again may be there twice
E  what was given up does not appear later, and no row that was not written
E  a row that the target takes is not refused, and those that it refuses are counted
G  a marker never goes back
L  a run has an end
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, cast

import pyarrow as pa

from penstock.base.errors import ConfigError, StateError, StorageError
from penstock.base.values import replace
from penstock.connectors.staged_sink import MarkedOutput, StagedTarget
from penstock.contract.ids import Epoch, Ordinal, StageIndex, TaskId
from penstock.contract.latest import Unpublished
from penstock.protocol.marked import Wanted
from sim.kernel.kernel import Violation
from sim.publishers.lakes import LAKES, Lake
from sim.publishers.publisher_scenarios import PublisherScenario, Trouble
from sim.publishers.staged_rows import StagedRows
from sim.publishers.strands import Gone, Strand
from sim.publishers.targets import HUGE, LARGE, LATE, SCHEMA, TARGETS, NoReply
from sim.servers import Waits
from sim.servers.kafka import KafkaRefusal
from sim.servers.postgres import SqlError

TASK = TaskId(StageIndex(0), Ordinal(0), 0)
EPOCHS, STEPS_MAX = 6, 6_000
FAULTY_STEPS = (60, 300)
STOPPED_STEPS = (3, 60)
LATE_STEPS = (2, 40)
STEP_S = (0.01, 0.3)
PATIENCE = 0.15  # how likely the leader gives a worker up that stands still, at each step
ZOMBIES = 0.3  # how often one of those that were left behind goes on
GIVEN_UP = 0.7  # how often a user gives output up that was not published at the first try
OTHERS = 0.05  # how often others write, at each step
RATES = {"failed": 0.03, "unknown": 0.06, "killed": 0.02, "stopped": 0.03}


@dataclass(slots=True)
class WorkerLife:
    """One life of the worker that has the task."""

    name: str
    staged: StagedTarget
    output: MarkedOutput | None = None
    strand: Strand | None = None
    stands_until: int = 0


@dataclass(slots=True)
class JudgedEpoch:
    """Rows of an epoch, by numbers, and what became of them.

    ``frozen``: what was visible when it was given up. ``overtaken``: after all markers were removed, a process that was
    left behind wrote one for it, before the successor did. Nobody promises that its rows are there once (decision 200).
    """

    rows: tuple[int, ...]
    large: frozenset[int]
    how: Unpublished = Unpublished.FAIL
    frozen: Counter[int] | None = None
    overtaken: bool = False


@dataclass(frozen=True, slots=True)
class LateArrival:
    """A request that arrives at a step, long after its client has given up."""

    step: int
    request: Callable[[], Any]


class PublisherWorld:
    """See the module."""

    def __init__(self, scenario: PublisherScenario, seed: int) -> None:
        self.scenario = scenario
        self.happened = Counter[str]()
        self.trace = hashlib.sha256()  # of all requests, and of the answers that are bytes
        self._draw = Random(f"{scenario.name}/{seed}")
        self._now, self._steps, self._numbers = 0.0, 0, 0
        make = {**TARGETS, **LAKES}[scenario.target]
        self._target = make(lambda: self._now)
        self._calm = self._draw.randint(*FAULTY_STEPS)
        self._left: list[WorkerLife] = []
        self._late: list[LateArrival] = []
        self._lives = 0
        self._epochs: list[JudgedEpoch] = []
        self._words: dict[int, str] = {}  # of their rows
        self._takes_less = self._due = self._lost = False
        self._publishing: Epoch | None = None  # the epoch that is known to be visible, while the next is published
        self._behind: set[Epoch] = set()  # the same of processes that were left behind then
        self._worker = self._begin_worker()

    # --- A run

    def run(self) -> None:
        """Run, and judge. Raises Violation."""
        trouble_at = self._draw.randint(2, EPOCHS - 1)
        backup = Epoch(self._draw.randint(1, trouble_at - 1))
        epoch = Epoch(1)
        while epoch <= EPOCHS:
            wanted, blocks = self._write(epoch)
            self._due = epoch == trouble_at
            if not self._publish(wanted, blocks):
                return self._end()  # the state is older than the output, and the error says so
            if self.scenario.trouble is Trouble.LOST_AT_REST and epoch < EPOCHS:
                self.happened["markers lost at rest"] += 1
                self._target.lose_markers()
                self._replace_worker()
                self._lost = True
            elif epoch == trouble_at and self.scenario.trouble is Trouble.OLD_STATE:
                self.happened["old state"] += 1
                self._replace_worker()
                trouble_at, epoch = 0, backup
            epoch = Epoch(epoch + 1)
        self._end()

    def close(self) -> None:
        """End all threads."""
        for worker in (*self._left, self._worker):
            if worker.strand is not None:
                worker.strand.die()

    def _trouble(self) -> None:
        """Let the trouble of the scenario come, while an epoch is committed and not known to be published."""
        self._due = False
        match self.scenario.trouble:
            case Trouble.LOST_MARKERS:
                self._target.lose_markers()
            case Trouble.TAKES_LESS:
                self._target.take_less()
                self._takes_less = True
            case Trouble.OTHERS:
                self._days_pass()

    def _days_pass(self) -> None:
        """Let days pass, in which nobody is in the middle of a request, and have old files removed behind them."""
        self.happened["days passed"] += 1
        for late in self._late:
            with suppress(SqlError, KafkaRefusal, Waits):
                late.request()
        for each in self._left:
            if each.strand is not None:
                each.strand.die()
        self._late, self._left = [], []
        self._lake.let_days_pass()
        self._left.append(WorkerLife("vacuum", self._target.staged(), strand=Strand("vacuum", self._lake.vacuum)))

    @property
    def _lake(self) -> Lake:
        assert self.scenario.target in LAKES
        return cast(Lake, self._target)

    # --- Orders

    def _write(self, epoch: Epoch) -> tuple[Wanted, list[StagedRows]]:
        """Write the rows of an epoch: the marker is known before them. What the target refuses is corrected."""
        rows = [[self._row() for _ in range(self._draw.randint(1, 3))] for _ in range(self._draw.randint(1, 3))]
        while True:
            batches = [pa.RecordBatch.from_pylist(block, SCHEMA) for block in rows]

            def write(output: MarkedOutput, staged: StagedTarget, batches: Sequence[Any] = batches) -> Any:
                return output.known(Epoch(epoch - 1)), [StagedRows(staged, batch) for batch in batches]

            done, error = self._order(write)
            if done is not None:
                break
            if self._repaired(error):
                self._replace_worker()
            elif isinstance(error, ConfigError):
                self._check_refused(rows, error)
                self.happened["refused when written"] += 1
                rows = [[{**row, "word": "short", "number": self._number(row)} for row in block] for block in rows]
            elif not isinstance(error, StorageError) and error is not None:
                raise Violation("X", f"epoch {epoch} is not written: {error}")
        known, blocks = done
        if self._lost:
            self._lost = False
            self._note_overtaken(known)
        flat = [row for block in rows for row in block]
        text = f"{epoch}/{flat}"
        large = frozenset(row["number"] for row in flat if len(row["word"]) >= LARGE)
        self._epochs.append(JudgedEpoch(tuple(row["number"] for row in flat), large))
        self._words.update({row["number"]: row["word"] for row in flat})
        return Wanted(epoch, hashlib.sha256(text.encode()).hexdigest()[:32], len(rows), known), blocks

    def _note_overtaken(self, known: Epoch) -> None:
        """Note the epochs for which a process that was left behind wrote a marker before the successor did."""
        visible = self._target.visible()
        for before, judged in enumerate(self._epochs):
            again = any(visible[number] > 1 for number in judged.rows)
            if Epoch(before) in self._behind and (known == before or again):
                self.happened["overtaken"] += 1
                judged.overtaken = True

    def _publish(self, wanted: Wanted, blocks: list[StagedRows]) -> bool:
        """Publish an epoch, with what the user says when that cannot be done. Return False when the job has to end."""
        judged = self._epochs[-1]
        self._publishing = wanted.known
        if self._due and self._draw.random() < 0.5:
            self._trouble()
        skips = 0
        while True:
            skips += judged.how is Unpublished.SKIP
            asked = replace(wanted, how=judged.how)

            def publish(output: MarkedOutput, _: StagedTarget, asked: Wanted = asked) -> Any:
                return (output.publish(asked, cast(Any, blocks)),)

            done, error = self._order(publish)
            if done is not None:
                break
            if self._due:
                self._trouble()
            if self.scenario.trouble is Trouble.GIVEN_UP and self._draw.random() < GIVEN_UP:
                judged.how = Unpublished.DROP
                self._replace_worker()
            elif self._repaired(error):
                self._replace_worker()
            elif isinstance(error, StateError) or "Skip" in str(error):
                if self.scenario.trouble in (Trouble.NONE, Trouble.OTHERS):
                    raise Violation("X", f"a user is asked, though nothing is lost: {error}")
                if "Skip" in str(error) and self.scenario.trouble is not Trouble.TAKES_LESS:
                    raise Violation("E", f"a committed row is refused, which was known before: {error}")
                if "let the job write to another place" in str(error):
                    self.happened["state older than output"] += 1
                    judged.frozen = Counter()
                    return False
                judged.how = self._remedy(str(error), judged.how)
                self._replace_worker()
            elif not isinstance(error, StorageError) and error is not None:
                raise Violation("X", f"epoch {wanted.epoch} is not published: {error!r}")
        self._publishing = None
        self._check_count(judged, done[0], skips)
        if judged.how is Unpublished.DROP:
            visible = self._target.visible()
            judged.frozen = Counter({number: visible[number] for number in judged.rows})
        self.happened[f"published: {judged.how}"] += 1
        self._judge(judged)
        return True

    def _repaired(self, error: Exception | None) -> bool:
        """Let the user make a table fit again, if the error says how. Return whether it did."""
        if self.scenario.target not in LAKES or self._lake.misfit not in str(error):
            return False
        self.happened["table made to fit"] += 1
        self._lake.take_all()
        return True

    def _remedy(self, said: str, how: Unpublished) -> Unpublished:
        """Choose one of the remedies that an error names, as a user does."""
        named = [each for each in (Unpublished.PUBLISH, Unpublished.SKIP, Unpublished.DROP) if each.value in said]
        if not named or how is not Unpublished.FAIL:
            raise Violation("X", f"after {how}: no remedy helps: {said}")
        return self._draw.choice(named)

    def _order(self, work: Callable[[MarkedOutput, StagedTarget], Any]) -> tuple[Any, Exception | None]:
        """Have the present worker do something. Return its result, or its error; neither when it was lost."""
        worker = self._worker

        def ordered() -> Any:
            if worker.output is None:
                worker.staged.claim()
                worker.output = worker.staged.output("job", TASK)
            return work(worker.output, worker.staged)

        strand = worker.strand = Strand(worker.name, ordered)
        while not strand.over:
            stands = self._steps < worker.stands_until
            if strand.dead or (stands and self._draw.random() < PATIENCE):
                self._replace_worker()
                return None, None
            self._step(worker)
        worker.strand = None
        if isinstance(strand.error, Violation):
            raise strand.error
        if isinstance(strand.error, Gone):
            self._replace_worker()
            return None, None
        if strand.error is not None and not isinstance(strand.error, ConfigError | StateError | StorageError):
            raise Violation("X", f"{strand.error!r}") from strand.error
        return strand.result, strand.error

    # --- Steps

    def _step(self, worker: WorkerLife | None) -> None:
        """Let one strand go on by one request: that of ``worker``, or of one that was left behind."""
        self._steps += 1
        self._now += self._draw.uniform(*STEP_S)
        if self._steps > STEPS_MAX:
            raise Violation("L", f"no end after {STEPS_MAX} requests")
        for late in [late for late in self._late if late.step <= self._steps]:
            self._late.remove(late)
            with suppress(SqlError, KafkaRefusal, Waits):  # nobody hears it
                late.request()
        if self.scenario.trouble is Trouble.OTHERS and self._draw.random() < OTHERS:
            self.happened["other writers"] += 1
            self._lake.write_as_another(self._draw)
        left = [each for each in self._left if self._goes_on(each)]
        if left and (worker is None or not self._goes_on(worker) or self._draw.random() < ZOMBIES):
            self._request(self._draw.choice(left))
        elif worker is not None and self._goes_on(worker):
            self._request(worker)
        self._left = [each for each in self._left if each.strand is not None and not each.strand.over]

    def _goes_on(self, worker: WorkerLife) -> bool:
        strand = worker.strand
        return strand is not None and not strand.over and not strand.dead and self._steps >= worker.stands_until

    def _request(self, worker: WorkerLife) -> None:
        strand = worker.strand
        assert strand is not None
        assert strand.request is not None
        verdict = self._verdict()
        self.trace.update(f"{self._now} {worker.name} {strand.kind} {verdict}\n".encode())
        if verdict == "stopped":
            worker.stands_until = self._steps + self._draw.randint(*STOPPED_STEPS)
            self.happened["stood still"] += 1
            return
        if verdict == "failed":
            return strand.go_on(None, NoReply())
        if verdict == "killed" and self._draw.random() < 0.5:
            return self._kill(worker)
        request = strand.request
        if verdict == "unknown" and strand.kind.startswith(LATE) and self._draw.random() < 0.5:
            self._late.append(LateArrival(self._steps + self._draw.randint(*LATE_STEPS), request))
            return strand.go_on(None, NoReply())
        try:
            answer, refusal = request(), None
        except Waits:
            return None
        except (SqlError, KafkaRefusal) as error:
            answer, refusal = None, error
        if isinstance(answer, bytes | tuple):
            self.trace.update(repr(answer).encode())
        if verdict == "killed":
            return self._kill(worker)
        if verdict == "unknown":
            self.happened["answer lost"] += 1
            return strand.go_on(None, NoReply())
        return strand.go_on(answer, refusal)

    def _verdict(self) -> str:
        if self._steps < self._calm:
            drawn = self._draw.random()
            for verdict, rate in RATES.items():
                drawn -= rate
                if drawn < 0:
                    return verdict
        return "done"

    def _kill(self, worker: WorkerLife) -> None:
        self.happened["killed"] += 1
        assert worker.strand is not None
        worker.strand.die()
        at = self._steps + self._draw.choice((0, 1, 20))
        self._late.append(LateArrival(at, lambda: self._target.process_ended(worker.name)))

    def _begin_worker(self) -> WorkerLife:
        self._lives += 1
        return WorkerLife(f"worker-{self._lives}", self._target.staged())

    def _replace_worker(self) -> None:
        if self._publishing is not None:
            self._behind.add(self._publishing)
        self._left.append(self._worker)
        self._worker = self._begin_worker()

    # --- Rows

    def _row(self) -> dict[str, Any]:
        self._numbers += 1
        size = self._draw.choice((1, 1, 1, LARGE, HUGE if self.scenario.refused_early else 1))
        size = 1 if size == LARGE and (self.scenario.trouble is not Trouble.TAKES_LESS or self._takes_less) else size
        if size == HUGE and self.scenario.target in ("upserts", *LAKES):
            return {"word": "no key", "number": None}
        return {"word": "x" * size, "number": self._numbers}

    def _number(self, row: dict[str, Any]) -> int:
        if row["number"] is None:
            self._numbers += 1
        return row["number"] or self._numbers

    # --- Judges

    def _check_refused(self, rows: list[list[dict[str, Any]]], error: Exception) -> None:
        """Check that the target does not take some of the rows that were refused when they were written."""
        if all(row["number"] is not None and len(row["word"]) < HUGE for block in rows for row in block):
            raise Violation("X", f"rows are refused that the target takes: {error}")

    def _check_count(self, judged: JudgedEpoch, left_out: int, skips: int) -> None:
        """Check how many rows are said to be left out: exactly, if the first one that was to skip them says it."""
        refused = judged.large if judged.how is Unpublished.SKIP else frozenset()
        visible = self._target.visible()
        missing = sum(not visible[number] for number in refused)
        if left_out > len(refused) or (skips == 1 and left_out != missing):
            raise Violation(
                "E", f"{left_out} rows are said to be left out, and {missing} are, of {len(refused)} refused"
            )

    def _judge(self, judged: JudgedEpoch) -> None:
        visible = self._target.visible()
        for number in judged.rows:
            count = visible[number]
            if judged.frozen is not None:
                fits = count == judged.frozen[number] <= 1
            elif judged.how is Unpublished.SKIP and number in judged.large:
                fits = count <= 1  # it was visible before the target took less
            else:
                twice = judged.how is Unpublished.PUBLISH or judged.overtaken
                fits = count == 1 or (twice and count == 2)
            if not fits:
                raise Violation("E", f"row {number} is visible {count} times ({judged.how}, {judged.frozen})")

    def _end(self) -> None:
        """Let everybody who was left behind come to an end, and judge once more."""
        self._calm = 0
        while self._left or self._late:
            for each in self._left:
                each.stands_until = 0
            self._step(None)
        for judged in self._epochs:
            self._judge(judged)
        for row in self._target.rows():
            number, word = row["number"], row["word"]
            if number >= 0 and self._words.get(number) != word:
                raise Violation(
                    "E", f"row {number} is visible with {word[:9]}, and epochs have {self._words.get(number)}"
                )
