"""The Protocols that simulated processes, the supervisor and the fault injector use.

The simulated cluster implements them. Each class name says who uses it or what it stands for:
:class:`Cluster` for an engine, :class:`Host` for a keeper, :class:`Machine` for the supervisor,
:class:`Wishes` and :class:`Doomed` for the fault injector, and :class:`Shell` for a task.
"""

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
from penstock.contract.schemes import SchemeChoice
from penstock.model.elements import Barrier
from penstock.protocol.core_context import ControlSettings
from sim.cluster.channel_ends import ChannelSizes
from sim.cluster.exchange import SimExchange
from sim.cluster.protocol_monitor import ProtocolMonitor
from sim.cluster.services import Service
from sim.kernel.calls import Op
from sim.kernel.kernel import SimKernel
from sim.kernel.network import Network
from sim.workload import SimJob


class Cluster(Protocol):
    """The cluster as an engine uses it. Each effect may fail, or end the caller by SimCrash."""

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
        """Return how many records of a split exist at the present simulated time."""
        ...


class Host(Protocol):
    """The environment of a keeper: network, engine, stores."""

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
        """Pass a command to the keeper's engine, in order. It is dropped when the engine has ended."""
        ...

    def start_engine(self, ordinal: Ordinal) -> None:
        """Start an engine for a keeper."""
        ...

    def end_engine(self, ordinal: Ordinal, incarnation: Incarnation) -> None:
        """End the keeper's engine if it has this incarnation, or has not sent its incarnation yet."""
        ...

    def latest(self) -> Latest:
        """Return the committed object of the job."""
        ...

    def running(self) -> Attempt | None:
        """Return the committed attempt if the engine of each of its workers runs it, None otherwise."""
        ...


class Machine(Protocol):
    """The workers of a job as the supervisor uses them."""

    def latest(self) -> Latest:
        """Return the committed object of the job."""
        ...

    def write_desired(self, desired: Desired) -> None:
        """Write the object ``Desired`` of the job."""
        ...

    def ordinals(self) -> list[Ordinal]:
        """List the ordinals of the workers that exist."""
        ...

    def worker_known(self, ordinal: Ordinal) -> bool:
        """Return whether a worker exists: it runs, or it will be restarted."""
        ...

    def worker_runs(self, ordinal: Ordinal) -> bool:
        """Return whether a worker's keeper runs."""
        ...

    def engine_life(self, ordinal: Ordinal) -> Incarnation | None:
        """Return the incarnation of the newest engine that a worker's keeper has started."""
        ...

    def start_worker(self, ordinal: Ordinal) -> None:
        """Start a worker's keeper."""
        ...

    def end_worker(self, ordinal: Ordinal) -> None:
        """Kill a worker's keeper and engine; a restart follows."""
        ...

    def remove_worker(self, ordinal: Ordinal) -> None:
        """Kill a worker's keeper and engine; no restart follows."""
        ...


class Lives(Protocol):
    """The names of one worker's newest processes."""

    keeper: str
    engine: str


class Wishes(Protocol):
    """The supervisor as the receiver of the user's requests.

    ``impossible``: the ordinal of a worker that cannot be restarted. ``away_until``: for each ordinal,
    the time before which no keeper starts.
    """

    impossible: int | None
    away_until: dict[Ordinal, int]

    def choose(self, choice: SchemeChoice) -> None:
        """Request another scheme of a step."""

    def rebalance(self) -> None:
        """Request that key groups are dealt out by load."""

    def begin_empty(self, *, allow_replay: bool, drop_unpublished: bool) -> None:
        """Request that the job begins without state."""

    def give_up_output(self, sink: str) -> None:
        """Request that the job goes on from its newest checkpoint, without unpublished output of a sink."""

    def drop_state(self, steps: tuple[str, ...]) -> None:
        """Request once that the job drops the state of some steps."""

    def run_again(self, *, oldest: bool, allow_replay: bool) -> None:
        """Start a stopped job again."""
        ...

    def rescale(self, workers: int) -> None:
        """Request another number of workers."""
        ...

    def ask(self, kind: str, argument: str | None) -> None:
        """Request a checkpoint, a savepoint or a stop, once."""
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
        """Handle the death of the process ``name``."""
        ...

    def lose_object(self) -> None:
        """Replace the job's object by a new, empty one."""
        ...

    def begin_elsewhere(self) -> None:
        """Begin another job from the newest savepoint that is complete, into the same output folder."""
        ...

    def change_job(self, name: str) -> None:
        """Make engines that start after this call compile another plan of the same job."""
        ...


class Shell(Protocol):
    """The engine as a task uses it."""

    exchange: SimExchange
    job: SimJob
    kernel: SimKernel
    monitor: ProtocolMonitor

    @property
    def attempt(self) -> Attempt:
        """Return the attempt to which the engine's tasks belong."""
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
        """Report the attempt as broken, because stored data is missing or changed."""
        ...

    def meet(self, split: SplitId, offset: int) -> None:
        """Note that a record is processed. Some records kill the process shortly afterwards."""
        ...

    def available(self, split: SplitId) -> int:
        """Return how many records of a split exist by now."""
        ...

    def now(self) -> float:
        """Return the engine's clock."""
        ...
