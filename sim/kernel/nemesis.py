"""The events from outside: kills, pauses, broken networks, outages, and requests of the user.

The plan of a run is drawn from the fault stream before the run starts. So it can be printed and
repeated. A run has two phases. Faults happen only in the safety phase, and each fault ends within
it. In the liveness phase nothing fails, and the job has to make progress.
"""

from dataclasses import dataclass
from random import Random

from sim.kernel.kernel import SECOND

FOLLOWER = -1  # in the place of an ordinal: the worker after the leader


@dataclass(frozen=True, slots=True)
class KillKeeper:
    """SIGKILL to a keeper. Its engine ends with it. ``ordinal`` None means the leader's."""

    ordinal: int | None


@dataclass(frozen=True, slots=True)
class KillEngine:
    """SIGKILL to an engine. Its keeper lives and starts another one."""

    ordinal: int | None


@dataclass(frozen=True, slots=True)
class Pause:
    """SIGSTOP to a keeper, an engine or both, and SIGCONT after ``duration_us``."""

    ordinal: int | None
    duration_us: int
    keeper: bool
    engine: bool


@dataclass(frozen=True, slots=True)
class CutNetwork:
    """The network between two hosts carries no message, in one direction or in both."""

    source: str
    target: str
    both: bool
    duration_us: int


@dataclass(frozen=True, slots=True)
class StoreDown:
    """The metadata store does not answer."""

    duration_us: int


@dataclass(frozen=True, slots=True)
class DiskFull:
    """Every write to the shared directory fails."""

    duration_us: int


@dataclass(frozen=True, slots=True)
class BreakStream:
    """One open data stream breaks. ``pick`` chooses the stream."""

    pick: int


@dataclass(frozen=True, slots=True)
class RescaleWish:
    """The user wants another number of workers."""

    workers: int


@dataclass(frozen=True, slots=True)
class SchemeWish:
    """The user wants another scheme of the step ``deal``."""

    scheme: str


@dataclass(frozen=True, slots=True)
class BalanceWish:
    """The user wants key groups dealt out by load."""


@dataclass(frozen=True, slots=True)
class RequestWish:
    """The user asks for a checkpoint, a savepoint or a stop."""

    kind: str
    argument: str | None = None


@dataclass(frozen=True, slots=True)
class RunAgain:
    """The user starts a stopped job again, optionally from its oldest retained epoch."""

    oldest: bool = False
    allow_replay: bool = False


@dataclass(frozen=True, slots=True)
class BeginEmpty:
    """The user lets the job begin without state, while it runs or after it was stopped."""

    allow_replay: bool = True
    drop_unpublished: bool = False


@dataclass(frozen=True, slots=True)
class GiveUpOutput:
    """The user has the job go on from its newest checkpoint, without that output of a sink which is not visible."""

    sink: str


@dataclass(frozen=True, slots=True)
class BeginElsewhere:
    """The user begins another job from the newest savepoint that is complete, into the same output folder.

    The workers of the first job end, even if that job was not stopped.
    """


@dataclass(frozen=True, slots=True)
class ChangeJob:
    """The user rolls out another plan of the job. The workers are replaced one by one.

    With ``drop`` (the steps whose state is dropped), all workers end before the new plan starts.
    """

    job: str
    apart_us: int = SECOND
    drop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoseObject:
    """The job's object is deleted. A level-triggered operator creates it again."""


@dataclass(frozen=True, slots=True)
class LoseWorker:
    """A worker dies and cannot come back, because there is no machine for it."""

    ordinal: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """SIGTERM to a keeper, which may take part in a last checkpoint for ``grace_us``.

    ``ordinal`` None means the leader's. No keeper starts there again for ``away_us``.

    ``soon``: the run fails if the keeper waits until its grace is over. ``last``: the run fails if the
    keeper leaves before that checkpoint is committed.
    """

    ordinal: int | None
    grace_us: int = 30 * SECOND
    away_us: int = 0
    soon: bool = False
    last: bool = False


Happening = (
    KillKeeper
    | KillEngine
    | Pause
    | CutNetwork
    | StoreDown
    | DiskFull
    | BreakStream
    | RescaleWish
    | SchemeWish
    | BalanceWish
    | RequestWish
    | RunAgain
    | BeginEmpty
    | GiveUpOutput
    | BeginElsewhere
    | ChangeJob
    | LoseObject
    | LoseWorker
    | Terminate
)


@dataclass(frozen=True, slots=True)
class Timed:
    """One event from outside, and its time."""

    at_us: int
    what: Happening


@dataclass(frozen=True, slots=True)
class Moment:
    """An aimed event: it happens ``delay_us`` after the state ``what`` occurs for the ``nth`` time."""

    what: str
    nth: int
    comes: Happening
    delay_us: int = 0


# Faults right after these states test the rules best.
CRITICAL = (
    "committed a checkpoint",
    "committed a final",
    "committed a rescale",
    "epoch aborted",
    "joiners admitted",
    "leader changed",
    "rescale settled",
    "rollback to a checkpoint",
    "rows held for a new owner",
    "snapshot begun",
    "swap refused by a conflict",
)


@dataclass(frozen=True, slots=True)
class Profile:
    """The bounds for the number of faults in a random run, and the end of its safety phase.

    ``faults`` come at random times, ``moments`` at states of :data:`CRITICAL`, and ``breaks`` break
    streams.
    """

    faults: tuple[int, int] = (0, 5)
    moments: tuple[int, int] = (0, 0)
    breaks: tuple[int, int] = (0, 0)
    safety_us: int = 12 * SECOND
    pause_us: tuple[int, int] = (SECOND // 10, 8 * SECOND)
    outage_us: tuple[int, int] = (SECOND // 10, 5 * SECOND)


def draw_faults(draw: Random, profile: Profile, workers: int) -> tuple[Timed, ...]:
    """Draw the faults of one run. All end within the safety phase. Broken streams are listed last."""
    breaks = [
        Timed(draw.randrange(profile.safety_us), BreakStream(draw.randrange(1 << 16)))
        for _ in range(draw.randint(*profile.breaks))
    ]
    count = draw.randint(*profile.faults)
    times = sorted(draw.randrange(profile.safety_us) for _ in range(count))
    drawn = [Timed(at, _draw_one(draw, profile, workers, profile.safety_us - at)) for at in times]
    return (*drawn, *breaks)


def draw_moments(draw: Random, profile: Profile, workers: int) -> tuple[Moment, ...]:
    """Draw the aimed faults of one run. Half come exactly at the state, half within a second."""
    drawn = []
    for _ in range(draw.randint(*profile.moments)):
        what, nth = draw.choice(CRITICAL), draw.choice((1, 1, 1, 2, 2, 3, 4))
        delay_us = draw.choice((0, 0, draw.randrange(20_000), draw.randrange(SECOND)))
        comes = _draw_one(draw, profile, workers + 1, profile.safety_us)
        drawn.append(Moment(what, nth, comes, delay_us))
    return tuple(drawn)


def _draw_one(draw: Random, profile: Profile, workers: int, left_us: int) -> Happening:
    whom = draw.choice((None, *range(workers)))  # None: the worker that leads at the time of the fault
    match draw.randrange(8):
        case 0:
            return KillKeeper(whom)
        case 1:
            return KillEngine(whom)
        case 2 | 3:
            keeper = draw.random() < 0.7
            engine = not keeper or draw.random() < 0.5
            return Pause(whom, min(left_us, draw.randint(*profile.pause_us)), keeper, engine)
        case 4 | 5:
            return _draw_cut(draw, workers, min(left_us, draw.randint(*profile.outage_us)))
        case 6:
            down = min(left_us, draw.randint(*profile.outage_us))
            return StoreDown(down) if draw.random() < 0.6 else DiskFull(down)
        case _:
            return BreakStream(draw.randrange(1 << 16))


def _draw_cut(draw: Random, workers: int, duration_us: int) -> CutNetwork:
    hosts = [f"w{i}" for i in range(workers)]
    source = draw.choice(hosts)
    target = draw.choice([h for h in (*hosts, "store") if h != source])
    return CutNetwork(source, target, draw.random() < 0.6, duration_us)
