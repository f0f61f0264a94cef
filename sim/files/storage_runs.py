"""Runs a storage scenario with one fault at one call, then again without; and judges what is left."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sim.files.call_hooks import AFTER, BEFORE, POWER, CallFault, FileCall, OneFault, ProcessEnded
from sim.files.mounted_files import Mount, MountedFiles
from sim.files.storage_scenarios import StorageScenario
from sim.files.virtual_disk import VirtualDisk

MakeScenario = Callable[[VirtualDisk], StorageScenario]
CALLS_MAX = 2000


@dataclass(frozen=True, slots=True)
class StorageRun:
    """One fault in one scenario. ``links``: the file system has hard links."""

    make: MakeScenario
    index: int
    fault: CallFault
    links: bool = True
    network: bool = True

    def run(self) -> FileCall | None:
        """Return the call at which the fault was; None when the scenario has fewer calls.

        Raises AssertionError or PenstockError when a promise is broken.
        """
        disk = VirtualDisk(links=self.links)
        scenario = self.make(disk)
        faults = OneFault(self.index, self.fault, lambda fault: self._end(fault, disk, files))
        files = self._mounted(disk, faults)
        try:
            scenario.live(files)
            assert files.open_paths == [], "everything that was opened is closed"
        except ProcessEnded:
            assert self.fault in BEFORE + AFTER
        scenario.check_complete(self._mounted(disk))
        scenario.live(self._mounted(disk))
        scenario.check_clean(disk)
        disk.power_failure()
        scenario.check_complete(self._mounted(disk))
        return faults.hit

    def _mounted(self, disk: VirtualDisk, hook: OneFault | None = None) -> MountedFiles:
        return MountedFiles(disk, Mount("worker", self.network, staleness=0.5, seed=self.index), hook)

    def _end(self, fault: CallFault, disk: VirtualDisk, files: MountedFiles) -> None:
        if fault not in POWER:
            files.end()
        elif self.index % 2:
            disk.power_failure(Random(self.index))
        else:
            disk.power_failure()


def every_call(make: MakeScenario, fault: CallFault, *, links: bool = True) -> list[FileCall]:
    """Put the fault at each call of a scenario in turn; return these calls.

    Raises AssertionError, naming the call, when a promise is broken.
    """
    hit: list[FileCall] = []
    for index in range(CALLS_MAX):
        try:
            call = StorageRun(make, index, fault, links).run()
        except Exception as error:
            raise AssertionError(f"{fault.value} at call {index} (of {make}): {error!r}") from error
        if call is None:
            return hit
        hit.append(call)
    raise AssertionError(f"the scenario does not end after {CALLS_MAX} calls")
