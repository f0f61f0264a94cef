"""What differs between one machine and a pod: the stores, the door, who starts engines, who hears.

A keeper is the same in both; whoever starts it brings these. The local ones are here, those of a
pod in :mod:`penstock.keeper.pod_platform`.
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
    """Tells others which lives are up here."""

    @property
    def handlers(self) -> Mapping[Method[Any, Any], Handler]:
        """Return what it serves at the keeper's own door."""
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
    """Pages that somebody may look at."""

    address: str

    def close(self) -> None:
        """Stop serving."""
        ...


@dataclass(frozen=True, slots=True)
class Voice:
    """What a keeper lets others ask of it, from any thread; ``life`` is that of its process."""

    life: str
    inbox: KeeperInbox
    report: Callable[[], WorkerReport]
    facts: Callable[[], Facts]


class Platform(Protocol):
    """See the module. ``drain_s``: time for a last checkpoint before the end; 0: none."""

    metadata: MetaStore
    lease: LeaseStore
    door: ListenAddress
    place: EnginePlace
    spawn: Spawn
    pod: str
    drain_s: float

    def dial(self, address: str) -> Client:
        """Return a client of another keeper."""
        ...

    def reporter(self, voice: Voice) -> Announcing:
        """Return who tells others of this keeper."""
        ...

    def pages(self, voice: Voice) -> Served:
        """Serve metrics, and probes where somebody probes."""
        ...

    def watch(self, changed: Callable[[Collection[str]], None]) -> None:
        """Have ``changed`` called, from any thread, with names of stored objects.

        They may be others now. It may come late, twice or never.
        """
        ...


class LocalPlatform:
    """The surroundings that a local supervisor serves over gRPC."""

    def __init__(self, launch: KeeperLaunch, spawn: Spawn | None = None) -> None:
        """Connect to the supervisor that ``launch`` names; ``spawn`` starts engines otherwise."""
        self._launch = launch
        # Calls to the supervisor that must not wait for each other have clients of their own.
        clients = (self.dial(launch.supervisor) for _ in range(4))
        metadata, lease, self._watched, self._supervisor = clients
        self.metadata: MetaStore = RemoteMetaStore(metadata)
        self.lease: LeaseStore = RemoteLeaseStore(lease)
        self.door = ListenAddress()
        self.place = EnginePlace(secret=signed(launch.token.encode(), b"flight"))
        started: Spawn = spawn_by(launch.forks) if launch.forks else LocalChild
        self.spawn = spawn or started
        self.pod = ""
        self.drain_s = 0.0  # the supervisor's own stop takes one checkpoint for all

    def dial(self, address: str) -> Client:
        """Return a client of another process of this run."""
        return Client(address, self._launch.token)

    def reporter(self, voice: Voice) -> Announcing:
        """Tell the supervisor; without one the keeper ends."""
        return SupervisorReporter(self._supervisor, voice.inbox, voice.report)

    def pages(self, voice: Voice) -> Served:
        """Serve metrics on the loopback address."""
        return Exporter(registry_of(self._launch.job, voice.report))

    def watch(self, changed: Callable[[Collection[str]], None]) -> None:
        """Let the supervisor say it: it has the objects."""
        watch_changes(self._watched, changed)
