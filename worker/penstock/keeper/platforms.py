"""What differs between a machine and a pod: stores, addresses, who starts engines, who gets reports.

A keeper is the same in both. Its platform is given to it at its start. That of a machine is here,
that of a pod in :mod:`penstock.keeper.pod_platform`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.cluster.launch import KeeperLaunch
from penstock.cluster.metadata import RemoteLeaseStore, RemoteMetaStore
from penstock.cluster.rpc import Client, Handler, ListenAddress, Method
from penstock.cluster.watch import watch_changes
from penstock.contract.latest import Desired, Latest, Leader
from penstock.contract.launch import EnginePlace
from penstock.contract.status import WorkerReport
from penstock.contract.trust import signed
from penstock.keeper.engine_launcher import spawn_by
from penstock.keeper.engine_process import LocalChild, Spawn
from penstock.keeper.keeper_inbox import KeeperInbox
from penstock.keeper.supervisor_reporter import SupervisorReporter
from penstock.metrics.exporter import Exporter
from penstock.metrics.registry import registry_of
from penstock.ports import LeaseStore, MetaStore


@dataclass(frozen=True, slots=True)
class Facts:
    """What a keeper knows at one moment; read by other threads than its loop.

    - ``turned_at``: when the loop turned last, monotonic seconds.
    - ``leader``: whom its member follows; ``leads``: what this keeper itself has decided, while it
      leads: the object and what is wanted.
    - ``running``: the engine runs the attempt that it was last given; ``wanted``: one should be up.
    """

    turned_at: float
    leader: Leader | None = None
    leads: tuple[Latest, Desired] | None = None
    running: bool = False
    wanted: bool = False


class Announcing(Protocol):
    """Tells others which engine runs here."""

    @property
    def handlers(self) -> Mapping[Method[Any, Any], Handler]:
        """Return what the keeper's own server answers for it."""
        ...

    def start(self) -> None:
        """Begin; once."""
        ...

    def wake(self) -> None:
        """Announce as soon as possible."""
        ...

    def final_report(self) -> None:
        """Announce once more, now: the process is about to end."""
        ...


class Served(Protocol):
    """Pages that are served over HTTP."""

    address: str

    def close(self) -> None:
        """Stop serving."""
        ...


@dataclass(frozen=True, slots=True)
class KeeperView:
    """What other threads may ask a keeper; ``life`` is the incarnation of its process."""

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
        """Return what reports this keeper to others."""
        ...

    def pages(self, view: KeeperView) -> Served:
        """Serve metrics, and in a pod its probes."""
        ...

    def watch(self, changed: Callable[[Collection[str]], None]) -> None:
        """Have ``changed`` called, from any thread, with names of stored objects.

        These objects may have changed. The call may come late, twice or never.
        """
        ...


class LocalPlatform:
    """The platform of one machine: its supervisor serves the stores over gRPC."""

    def __init__(self, launch: KeeperLaunch, spawn: Spawn | None = None) -> None:
        """Connect to the supervisor that ``launch`` names; ``spawn`` starts engines otherwise."""
        self._launch = launch
        # Calls to the supervisor that must not wait for each other have clients of their own.
        clients = (self.dial(launch.supervisor) for _ in range(4))
        metadata, lease, self._watched, self._supervisor = clients
        self.metadata: MetaStore = RemoteMetaStore(metadata)
        self.lease: LeaseStore = RemoteLeaseStore(lease)
        self.listen = ListenAddress()
        self.place = EnginePlace(secret=signed(launch.token.encode(), b"flight"))
        started: Spawn = spawn_by(launch.forks) if launch.forks else LocalChild
        self.spawn = spawn or started
        self.pod = ""
        self.drain_s = 0.0  # the supervisor's own stop takes one checkpoint for all

    def dial(self, address: str) -> Client:
        """Return a client of another process of this run."""
        return Client(address, self._launch.token)

    def reporter(self, view: KeeperView) -> Announcing:
        """Report to the supervisor; a keeper without one ends."""
        return SupervisorReporter(self._supervisor, view.inbox, view.report)

    def pages(self, view: KeeperView) -> Served:
        """Serve metrics on the loopback address."""
        return Exporter(registry_of(self._launch.job, view.report))

    def watch(self, changed: Callable[[Collection[str]], None]) -> None:
        """Let the supervisor tell it, which has the objects."""
        watch_changes(self._watched, changed)
