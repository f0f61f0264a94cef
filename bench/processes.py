"""Reads from the kernel: memory, CPU and children of processes, and bytes of the loopback interface."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_IDLE, _STOLEN = 3, 7  # indexes in the times of all processors
_PARENT, _USER, _SYSTEM, _RESIDENT = 1, 11, 12, 21  # indexes of the fields after a process's name


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of processes in bytes. A process that has ended counts as 0."""
    return sum(int(fields[_RESIDENT]) * _PAGE for fields in map(_fields, pids) if fields)


def proportional_bytes(pids: Iterable[int]) -> int:
    """Return the memory of processes in bytes. A page that several processes have counts in parts."""
    found = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue  # the process has just ended
        found += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return found


def cpu_s(pids: Iterable[int]) -> float:
    """Return the CPU seconds that processes have used so far, in user and system mode."""
    found = [fields for fields in map(_fields, pids) if fields]
    return sum(int(f[_USER]) + int(f[_SYSTEM]) for f in found) / _TICKS_PER_S


def context_switches(pids: Iterable[int]) -> int:
    """Return how often the threads of processes that live have left a processor, of themselves or not."""
    found = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/status"):
            try:
                lines = thread.read_text().splitlines()
            except OSError:
                continue  # the thread has just ended
            found += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return found


def tree(root: int) -> list[int]:
    """List a process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _fields(int(folder.name))):
            parents.setdefault(int(fields[_PARENT]), []).append(int(folder.name))
    found, open_ = [], [root]
    while open_:
        found.append(pid := open_.pop())
        open_ += parents.get(pid, ())
    return found


class Others:
    """Measures the share of the processors that other programs use, from its construction on.

    This process and the children that it has waited for, with their children, do not count as
    others. For children that it does not wait for, ``own_s`` is the CPU time that was seen.
    """

    def __init__(self) -> None:
        """Begin to measure."""
        self._begun, self._busy, self._own = time.monotonic(), _busy_s(), _own_s()

    def share(self, own_s: float = 0.0) -> float:
        """Return the share (0..1) of all processors that others have used."""
        span = (time.monotonic() - self._begun) * (os.cpu_count() or 1)
        others = (_busy_s() - self._busy) - max(own_s, _own_s() - self._own)
        return round(max(0.0, others / span), 3) if span else 0.0


def stolen_s() -> float:
    """Return for how many seconds the host has taken a processor from this machine: the mean of all.

    Only time in which the machine needed the processor counts. Always 0 on a machine without a host.
    """
    return _times()[_STOLEN] / _TICKS_PER_S / (os.cpu_count() or 1)


def _busy_s() -> float:
    times = _times()
    return (sum(times) - times[_IDLE] - times[_IDLE + 1]) / _TICKS_PER_S


def _times() -> list[int]:
    """Return the times of all processors together, in ticks, from user to stolen."""
    return [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def _own_s() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def loopback_bytes(pid: int) -> int | None:
    """Return the bytes that the loopback interface of a process has carried since it was created.

    None for a process that has ended.
    """
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return None
    counters = (line.partition(":")[2].split() for line in lines if line.strip().startswith("lo:"))
    return next((int(found[8]) for found in counters), None)


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []  # the process has just ended
