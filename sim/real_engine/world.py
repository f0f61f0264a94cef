"""One run of real engines under the simulated control plane.

As in :class:`sim.world.World`, a run has two phases. In the safety phase faults happen. In the liveness
phase nothing fails any more, and the job must end within a bound. Then its output is compared.
"""

import gc
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from penstock.contract.control_messages import EngineReport
from penstock.contract.ids import Epoch, JobUid, Ordinal, SplitId
from penstock.storage.blobs import DirectoryBlobStore
from sim.cluster.fault_injector import FaultInjector
from sim.cluster.keeper import LATEST
from sim.control_plane import ClusterParts, ControlPlane
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.virtual_disk import VirtualDisk
from sim.kernel.faults import Faults, Verdict
from sim.kernel.kernel import SECOND, Violation
from sim.kernel.nemesis import Pause, draw_faults, draw_moments
from sim.real_engine import thread_twins
from sim.real_engine.checker import RealChecker
from sim.real_engine.engine_node import STORAGE, RealEngineNode
from sim.real_engine.file_faults import FileFaults
from sim.real_engine.flight_twins import FlightNetwork, SimFlightServer
from sim.real_engine.jobs.checked_job import OutputPlace
from sim.real_engine.outputs import FileOutputs, MarkedOutputs, Outputs, files_on_disk
from sim.real_engine.prepared_job import OUTPUT, PreparedJob
from sim.real_engine.senders import Senders
from sim.real_engine.server_calls import ServerCalls
from sim.real_engine.stored_files import RealFiles, SharedFolders
from sim.real_engine.threaded_kernel import ThreadedKernel
from sim.scenario import Scenario

STALENESS = 0.3
POWER_FAILURES = (0, 0, 1)
SAVEPOINTS = Path("/savepoints")  # on the virtual disk
EVENTS_MAX = 200_000
SENDER_END_US = 10 * SECOND  # a sender ends so soon after its job


@dataclass(frozen=True, slots=True)
class PowerFails:
    """The power of all machines fails."""


class EngineWorld(ControlPlane):
    """See the module."""

    def __init__(self, scenario: Scenario, seed: int, job: PreparedJob, faults: Faults | None = None) -> None:
        self._scratch = job.folder / "scratch"
        self.compiled, self._changes = job.compiled, job.changes
        self._jobs = 1
        self.disk = VirtualDisk()
        kernel = ThreadedKernel(seed, self.died)
        streams = kernel.streams
        host_of: dict[str, str] = {"super": "super", "store": "store"}
        network = FlightNetwork(kernel, host_of)
        network.scheduler = kernel.scheduler
        network.slow_chance = scenario.slow_chance
        SimFlightServer.network = self.flight = network
        self._names = Random(f"{seed}/names")
        self._network = self._names.random() < 0.5
        self._mounts: dict[str, MountedFiles] = {}
        self._engines: dict[str, RealEngineNode] = {}
        kernel.scheduler.at_rest = self._check_rest
        thread_twins.begin(kernel.scheduler, kernel, self._names, self._end_process)
        job.checked.begin_run()
        self.job_uid = _job_uid(self._jobs)
        self.files = RealFiles(kernel, streams.faults, self._stores("keepers"))
        parts = ClusterParts(kernel, network, self.files, faults or Faults(streams.faults, scenario.rates))
        super().__init__(scenario, parts, self.job_uid, host_of)
        self.scheduler, network.faults = kernel.scheduler, self.faults
        self.service.applied_when_unknown = self.faults.single is not None
        self._servers = ServerCalls.running = ServerCalls(self, Random(f"{seed}/servers"), self)
        kernel.add("servers", self._servers)
        for name, (columns, keys) in job.checked.tables.items():
            self._servers.postgres.make_table(name, columns, keys)
            self._servers.postgres.put(name, list(map(dict, job.checked.filled.get(name, ()))))
        for name, partitions in job.checked.topics.items():
            self._servers.kafka.make_topic(name, partitions)
        self.judge = RealChecker(kernel, job.checked, self._stores("judge"), self._outputs(job.checked.place))
        self.service.watcher = self.judge
        kernel.add("power", self)
        self._senders = Senders(self, job.checked.senders(job.folder / "input"))
        kernel.add("senders", self._senders)
        self._plan_faults(scenario, faults)
        self.injector = FaultInjector(self)
        self._empty_scratch(job.checked.on_disk)
        self.begin(self.injector)
        self._senders.plan(Random(f"{seed}/senders"), scenario.safety_us)

    def _stores(self, machine: str) -> SharedFolders:
        """Return the shared folders as a machine sees them that has no faults."""
        files = MountedFiles(self.disk, Mount(machine))
        return SharedFolders(DirectoryBlobStore(self.storage, files), DirectoryBlobStore(SAVEPOINTS, files))

    def _outputs(self, place: OutputPlace) -> Outputs:
        match place:
            case OutputPlace.FOLDER:
                return FileOutputs(files_on_disk(self.disk, OUTPUT))
            case OutputPlace.BUCKET:
                return FileOutputs(self._servers.bucket.files)
            case OutputPlace.TABLE:
                return MarkedOutputs(self._servers.postgres.rows, self._servers.postgres.marker_of)
            case OutputPlace.TOPIC:
                return MarkedOutputs(self._servers.kafka.values, self._servers.kafka.marker_of)

    def _plan_faults(self, scenario: Scenario, faults: Faults | None) -> None:
        streams = self.kernel.streams
        self.moments = scenario.moments
        self.plan = scenario.happenings(streams.workload)
        if faults is None and scenario.profile is not None:
            self.plan += draw_faults(streams.faults, scenario.profile, scenario.workers)
            self.moments += draw_moments(streams.faults, scenario.profile, scenario.workers)
            for _ in range(streams.faults.choice(POWER_FAILURES)):
                self.kernel.at(streams.faults.randrange(scenario.safety_us), "power", PowerFails())

    @property
    def storage(self) -> Path:
        """Return the directory of the job that runs now."""
        return STORAGE / self.job_uid

    def _empty_scratch(self, databases: bool) -> None:
        if databases:
            gc.collect()  # closes those of the run before: RocksDB needs a second for one whose folder is gone
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()

    # --- A run

    def run(self) -> None:
        """Run both phases and compare. Raises Violation."""
        safety = self.scenario.safety_us
        self._advance(safety)
        self.faults.quiet = True
        self.injector.calm()
        if not self._advance(safety + self.scenario.liveness_us, until_done=True):
            seconds = self.scenario.liveness_us // SECOND
            raise Violation("L", f"no end {seconds} s after the last fault")
        if (failure := self.latest().failure) is not None:
            raise Violation("L", f"the job failed: {failure}")
        self._let_senders_end()
        self.judge.finish()
        self.let_collect(self.judge.left)

    def _let_senders_end(self) -> None:
        until_us = self.kernel.now_us + SENDER_END_US
        while self._senders.waiting:
            if self.kernel.now_us >= until_us:
                raise Violation("L", f"the job has ended, but not its senders {self._senders.waiting}")
            self._advance(self.kernel.now_us + SECOND // 2)

    def close(self) -> int:
        """End what is left of the run; return the number of threads that do not end."""
        return self.scheduler.unwind()

    def done(self) -> bool:
        """Return whether the job has ended."""
        return self.latest().closed()

    def _advance(self, until_us: int, *, until_done: bool = False) -> bool:
        while self.kernel.now_us < until_us:
            step = min(until_us, self.kernel.now_us + SECOND // 2)
            if self.kernel.run(step, self.done if until_done else None):
                return True
            if self.kernel.handled > EVENTS_MAX:
                raise Violation("L", f"{EVENTS_MAX} events in {step / SECOND:.0f} virtual seconds")
        return until_done and self.done()

    # --- For engines

    def new_engine(self, ordinal: Ordinal, name: str) -> RealEngineNode:
        """Return a new life of a worker's engine."""
        made = self._engines[name] = RealEngineNode(self, ordinal, name)
        return made

    def _check_rest(self) -> None:
        for name, engine in self._engines.items():
            if not self.kernel.paused(name):
                engine.check_rest()

    def check_committed(self, partition: int, rows: int) -> None:
        """Check what a sender is told."""
        self.judge.check_committed(SplitId(f"partition-{partition:05d}"), rows)

    def reported(self, ordinal: Ordinal, report: EngineReport) -> None:
        """Check what an engine says."""
        self.judge.reported(ordinal, report)

    def mount(self, name: str, end: Callable[[], None]) -> MountedFiles:
        """Return the shared disk as an engine sees it."""
        faults = FileFaults(self, self.kernel.streams.faults, end)
        files = MountedFiles(self.disk, Mount(name, self._network, STALENESS, seed=self._names.getrandbits(32)), faults)
        self._mounts[name] = files
        return files

    def file_verdict(self, *, changes: bool) -> Verdict:
        """Draw the outcome of a call to the disk."""
        if not changes and self.faults.single is not None:
            return Verdict.DONE
        return self.faults.verdict("file" if changes else "look")

    def disk_is_full(self) -> bool:
        """Return whether there is no room on the disk."""
        return self.service.disk.full

    def died(self, name: str) -> None:
        """End a process. The system closes its files."""
        super().died(name)
        self._servers.process_ended(name)
        self._engines.pop(name, None)
        if name in self._mounts:
            self._mounts.pop(name).end()

    def scratch(self, name: str) -> Path:
        """Return an empty folder of a process."""
        made = self._scratch / name
        made.mkdir()
        return made

    def stores_answer(self) -> bool:
        """Return whether servers outside of the cluster answer at all."""
        return not self.service.down

    def file_named(self, path: str) -> None:
        """Check a file that may have become visible output."""
        if Path(path).parent.parent == OUTPUT:
            self.object_created(path)

    def object_created(self, key: str) -> None:
        """Check a new object."""
        name = key.rpartition("/")[2]
        if name.endswith(".parquet"):
            self.judge.appears(Epoch(int(name.partition("-")[0])), name)

    def marker_written(self, key: object, before: Sequence[Any] | None, marker: Sequence[Any]) -> None:
        """Check a new marker."""
        if before is not None and marker[0] < before[0]:
            raise Violation("G", f"the marker of {key} goes back from {before} to {marker}")
        self.judge.appears(Epoch(marker[0]), f"output of {key}")

    def _end_process(self, _status: int) -> None:
        self.kernel.happened("engine ended its process")
        self.end_caller()

    def end_caller(self) -> None:
        """End the process of the calling thread, which does not return."""
        self.died(self.scheduler.current.process)
        self.scheduler.vanish()

    def stop_caller(self, duration_us: int) -> None:
        """Stop the worker of the calling thread, keeper and engine. Returns when it goes on."""
        ordinal = self._engines[self.scheduler.current.process].ordinal
        self.kernel.at(0, "fault_injector", Pause(ordinal, duration_us, keeper=True, engine=True))
        self.scheduler.block(1)

    def handle(self, event: object, now: float) -> None:
        """Let the power fail: all workers end, and what was not synced is lost."""
        assert isinstance(event, PowerFails)
        self.kernel.happened("power failed")
        for ordinal in self.ordinals():
            self.end_worker(ordinal)
        self._senders.power_failed()
        self.disk.power_failure(self.kernel.streams.faults)
        self.files.stores, self.judge.stores = self._stores("keepers"), self._stores("judge")

    def begin_elsewhere(self) -> None:
        """End the job's workers, and begin another job from the newest savepoint. It writes to the same output."""
        self.kernel.happened("another job begins from a savepoint")
        for ordinal in self.ordinals():
            self.end_worker(ordinal)
        self.recorder.check()
        self._jobs += 1
        self.job_uid = _job_uid(self._jobs)
        self.files.begin_directory()
        self.files.stores = self._stores("keepers")
        self.judge.begin_job(self._stores("judge"))
        self.service.objects.pop(LATEST)
        self.begin_object()
        self.begin_lease()
        self.supervisor.begin_from(next(reversed(self.judge.savepoints)), f"run-{self._jobs}")

    def change_job(self, name: str) -> None:
        """Let engines that start from now on compile another revision of the job."""
        self.compiled = self._changes[name]

    # --- What no scenario here does

    def lose_object(self) -> None:
        """Replace the job's object by a new, empty one."""
        raise NotImplementedError


def _job_uid(number: int) -> JobUid:
    return JobUid(f"7b0c7a52-6a2e-4d39-9f0e-{number:012d}")
