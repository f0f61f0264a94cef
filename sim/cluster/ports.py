"""The ports of the simulated processes to the cluster around them."""

from collections.abc import Mapping
from typing import Protocol

from penstock.contract.control_messages import Command, EngineReport
from penstock.contract.ids import (
    Attempt,
    BlobName,
    Epoch,
    Incarnation,
    JobUid,
    Ordinal,
    SplitId,
    Term,
)
from penstock.contract.latest import Desired, Latest
from penstock.model.elements import Barrier
from penstock.protocol.settings import ControlSettings
from sim.cluster.channel_ends import ChannelSizes
from sim.cluster.exchange import SimExchange
from sim.cluster.protocol_monitor import ProtocolMonitor
from sim.cluster.services import Service
from sim.kernel.calls import Op
from sim.kernel.kernel import SimKernel
from sim.kernel.network import Network
from sim.workload import SimJob


class Cluster(Protocol):
    """The cluster as one process uses it. Each effect may fail, or end the caller by SimCrash."""

    kernel: SimKernel
    network: Network
    job: SimJob
    job_uid: JobUid
    monitor: ProtocolMonitor
    sizes: ChannelSizes
    beat_us: int
    idle_after_s: float | None
    poison: tuple[str, int] | None
    disorder_us: int | None

    def call(self, caller: str, op: Op, token: object) -> None:
        """Call the store. One Reply with the token follows, unless the caller dies."""
        ...

    def to_keeper(self, engine: str, incarnation: Incarnation, report: EngineReport) -> None:
        """Pass an engine's report to its keeper, in order."""
        ...

    def available(self, split: SplitId) -> int:
        """Return how many records of a split exist by now."""
        ...


class Host(Protocol):
    """The host of a keeper: its network, its engine, its stores."""

    kernel: SimKernel
    network: Network
    job_uid: JobUid
    control: ControlSettings
    poll_us: int

    def call(self, caller: str, op: Op, token: object) -> None:
        """Call the store. One Reply with the token follows, unless the caller dies."""
        ...

    def to_peer(self, keeper: str, address: str, body: object) -> None:
        """Send a message to a keeper. It may be lost. A dead address refuses it."""
        ...

    def to_engine(self, keeper: str, incarnation: Incarnation, term: Term, command: Command) -> None:
        """Pass a command to the keeper's engine, in order. It is dropped when the engine is gone."""
        ...

    def start_engine(self, ordinal: Ordinal) -> None:
        """Start an engine for a keeper."""
        ...

    def end_engine(self, ordinal: Ordinal, incarnation: Incarnation) -> None:
        """End that life of the keeper's engine. An engine without a name yet is ended in any life."""
        ...

    def latest(self) -> Latest:
        """Return the committed object of the job."""
        ...


class Machine(Protocol):
    """What the supervisor may do with the workers of the job."""

    def latest(self) -> Latest:
        """Return the committed object of the job."""
        ...

    def write_desired(self, desired: Desired) -> None:
        """Write what is wanted."""
        ...

    def ordinals(self) -> list[Ordinal]:
        """List the workers that are known."""
        ...

    def worker_known(self, ordinal: Ordinal) -> bool:
        """Return whether a worker is there, running or about to be restarted."""
        ...

    def worker_runs(self, ordinal: Ordinal) -> bool:
        """Return whether a worker's keeper lives."""
        ...

    def engine_life(self, ordinal: Ordinal) -> Incarnation | None:
        """Return the newest engine that a worker's keeper has started."""
        ...

    def start_worker(self, ordinal: Ordinal) -> None:
        """Start a worker's keeper."""
        ...

    def end_worker(self, ordinal: Ordinal) -> None:
        """Kill a worker's keeper and engine; a restart follows."""
        ...

    def remove_worker(self, ordinal: Ordinal) -> None:
        """Kill a worker for good."""
        ...


class Lives(Protocol):
    """The newest processes of one worker."""

    keeper: str
    engine: str


class Wishes(Protocol):
    """The receiver of the user's requests."""

    impossible: int | None
    away_until: dict[Ordinal, int]

    def begin_empty(self, *, allow_replay: bool, drop_unpublished: bool) -> None:
        """Request that the job begins without state."""

    def drop_state(self, steps: tuple[str, ...]) -> None:
        """Request once that the state of some steps is given up."""

    def run_again(self, *, oldest: bool, allow_replay: bool) -> None:
        """Start a stopped job again."""
        ...

    def rescale(self, workers: int) -> None:
        """Request another number of workers."""
        ...

    def ask(self, kind: str, argument: str | None) -> None:
        """Ask for something once."""
        ...


class Doomed(Protocol):
    """The cluster as the fault injector uses it."""

    kernel: SimKernel
    network: Network
    service: Service

    @property
    def supervisor(self) -> Wishes:
        """Return the receiver of the user's requests."""
        ...

    @property
    def workers(self) -> Mapping[Ordinal, Lives]:
        """Return the workers by ordinal."""
        ...

    def latest(self) -> Latest:
        """Return the committed object of the job."""
        ...

    def died(self, name: str) -> None:
        """Make a process end."""
        ...

    def lose_object(self) -> None:
        """Replace the job's object by a new, empty one."""
        ...

    def begin_elsewhere(self, savepoint: str) -> None:
        """Begin another job from a savepoint, into the same output folder."""
        ...

    def change_job(self, name: str) -> None:
        """Let engines that start from now on compile another plan of the same job."""
        ...


class Shell(Protocol):
    """What a task needs of its engine."""

    exchange: SimExchange
    job: SimJob
    kernel: SimKernel
    monitor: ProtocolMonitor

    @property
    def attempt(self) -> Attempt:
        """Return the attempt of the tasks here."""
        ...

    def call(self, op: Op, token: object) -> None:
        """Call the store. The reply comes with the token, to this attempt only."""
        ...

    def fresh(self, term: Term, epoch: Epoch, suffix: str) -> BlobName:
        """Return a name for a new file."""
        ...

    def report(self, report: EngineReport) -> None:
        """Send a report to the keeper."""
        ...

    def spread(self, barrier: Barrier) -> None:
        """Give a barrier to the sources of this engine after a short delay."""
        ...

    def damaged(self, reason: str) -> None:
        """Give the attempt up: stored data is gone or altered."""
        ...

    def meet(self, split: SplitId, offset: int) -> None:
        """Process a record. Some records kill the process a little later."""
        ...

    def available(self, split: SplitId) -> int:
        """Return how many records of a split exist by now."""
        ...

    def now(self) -> float:
        """Return the engine's clock."""
        ...
