"""The platform of a keeper: stores, addresses, the start of engines and the receiver of reports.

The keeper itself is the same on one machine and in a pod. It gets its platform when it starts. The
platform of one machine is in this module. The platform of a pod is in
:mod:`penstock.keeper.pod_platform`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.metadata import RemoteLeaseStore, RemoteMetaStore, watch_changes
from penstock.cluster.rpc import Client, Handler, ListenAddress, Method
from penstock.contract.control_messages import EnginePlace
from penstock.contract.latest import Desired, Latest, Leader
from penstock.contract.status import WorkerReport
from penstock.contract.trust import signed
from penstock.keeper.engine_launcher import spawn_by
from penstock.keeper.engine_process import LocalChild, Spawn
from penstock.keeper.keeper_messages import KeeperInbox
from penstock.keeper.supervisor_reporter import SupervisorReporter
from penstock.metrics.exporter import Exporter
from penstock.metrics.registry import registry_of
from penstock.ports import LeaseStore, MetaStore


@dataclass(frozen=True, slots=True)
class Facts:
    """A copy of the keeper's knowledge at one moment, for threads other than the keeper's loop.

    - ``turned_at``: the time of the loop's newest pass, in monotonic seconds.
    - ``leader``: the leader that this worker follows.
    - ``leads``: ``Latest`` and ``Desired`` as this keeper has them while it leads; None: another
      keeper leads, or nobody.
    - ``running``: the engine runs the attempt of its newest Reset.
    - ``wanted``: this worker should have an engine.
    """

    turned_at: float
    leader: Leader | None = None
    leads: tuple[Latest, Desired] | None = None
    running: bool = False
    wanted: bool = False


class Announcing(Protocol):
    """Reports the state of this worker to other processes."""

    @property
    def handlers(self) -> Mapping[Method[Any, Any], Handler]:
        """Return the handlers of calls that the keeper's server has to answer for this reporter."""
        ...

    def start(self) -> None:
        """Begin to report. Called once."""
        ...

    def wake(self) -> None:
        """Report as soon as possible."""
        ...

    def final_report(self) -> None:
        """Report once more before this call returns, because the process is about to end."""
        ...


class Served(Protocol):
    """A running HTTP server with pages."""

    address: str

    def close(self) -> None:
        """Stop serving."""
        ...


@dataclass(frozen=True, slots=True)
class KeeperView:
    """What other threads may use of a keeper. ``life`` is the incarnation of the keeper's process."""

    life: str
    inbox: KeeperInbox
    report: Callable[[], WorkerReport]
    facts: Callable[[], Facts]


class Platform(Protocol):
    """What differs for a keeper. ``drain_s``: time for a last checkpoint before the end; 0: no such checkpoint."""

    metadata: MetaStore
    lease: LeaseStore
    listen: ListenAddress
    place: EnginePlace
    spawn: Spawn
    pod: str
    drain_s: float

    def dial(self, address: str) -> Client:
        """Return a client of another keeper."""
        ...

    def reporter(self, view: KeeperView) -> Announcing:
        """Return the reporter of this keeper."""
        ...

    def pages(self, view: KeeperView) -> Served:
        """Serve the page of metrics, and in a pod the probes."""
        ...

    def watch(self, changed: Callable[[Collection[str]], None]) -> None:
        """Arrange calls of ``changed`` with the names of stored objects that may have changed.

        A call may come from any thread. It may come late, twice or never.
        """
        ...


class LocalPlatform:
    """The platform of one machine: its supervisor serves the stores over gRPC."""

    def __init__(self, launch: KeeperLaunch, spawn: Spawn | None = None) -> None:
        """Connect to the supervisor that ``launch`` names. ``spawn`` replaces the usual start of engines."""
        self._launch = launch
        # Calls to the supervisor that must not wait for each other use different clients.
        clients = (self.dial(launch.supervisor) for _ in range(4))
        metadata, lease, self._watched, self._supervisor = clients
        self.metadata: MetaStore = RemoteMetaStore(metadata)
        self.lease: LeaseStore = RemoteLeaseStore(lease)
        self.listen = ListenAddress()
        self.place = EnginePlace(secret=signed(launch.token.encode(), b"flight"))
        started: Spawn = spawn_by(launch.forks) if launch.forks else LocalChild
        self.spawn = spawn or started
        self.pod = ""
        self.drain_s = 0.0  # the supervisor takes one checkpoint for the whole job when it stops

    def dial(self, address: str) -> Client:
        """Return a client of another process of this run."""
        return Client(address, self._launch.token)

    def reporter(self, view: KeeperView) -> Announcing:
        """Report to the supervisor. The keeper ends when it cannot reach the supervisor."""
        return SupervisorReporter(self._supervisor, view.inbox, view.report)

    def pages(self, view: KeeperView) -> Served:
        """Serve metrics on the loopback address."""
        return Exporter(registry_of(self._launch.job, view.report))

    def watch(self, changed: Callable[[Collection[str]], None]) -> None:
        """Get the names of changed objects from the supervisor, which stores the objects."""
        watch_changes(self._watched, changed)
