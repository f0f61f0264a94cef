"""What a process used, and what the operator counted, between two readings."""

import os
import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from tests.integration.kubernetes.operator.conftest import Running

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE = re.compile(r"^(penstock_operator_\w+)(?:\{([^}]*)\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading: monotonic time, seconds of CPU, bytes of memory, the operator's own counters."""

    at: float
    cpu_s: float
    memory_bytes: int
    peak_bytes: int
    calls: float
    writes: float
    reconciles: float
    log_lines: int


def read(operator: Running) -> Reading:
    """Read the operator's process, its metrics and its log."""
    if not operator.waits(0.0):
        raise SystemExit(f"the operator has ended: {operator.log.read_text()[-2000:]}")
    stat = Path(f"/proc/{operator.process.pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{operator.process.pid}/status").read_text()
    sizes = {k: int(v) * 1024 for k, v in re.findall(r"^(VmRSS|VmHWM):\s+(\d+) kB", status, re.M)}
    try:
        _, page = operator.page("/metrics")
    except OSError as error:
        text = operator.log.read_text()[-2000:]
        raise SystemExit(f"the operator does not answer ({error}): {text}") from error
    found = SAMPLE.findall(page)
    calls = [(labels, float(v)) for name, labels, v in found if name.endswith("api_calls_total")]
    return Reading(
        at=time.monotonic(),
        cpu_s=(int(stat[11]) + int(stat[12])) / TICKS_PER_S,
        memory_bytes=sizes["VmRSS"],
        peak_bytes=sizes["VmHWM"],
        calls=sum(v for _, v in calls),
        writes=sum(v for labels, v in calls if 'verb="status"' in labels),
        reconciles=sum(float(v) for name, _, v in found if name.endswith("reconciles_total")),
        log_lines=operator.log.read_text().count("\n"),
    )


def between(first: Reading, last: Reading, jobs: int) -> dict[str, float]:
    """Return what was used between two readings, of all and by job and minute."""
    seconds = last.at - first.at
    minutes = seconds / 60 * jobs
    return {
        "seconds": round(seconds, 1),
        "cpu_share": round((last.cpu_s - first.cpu_s) / seconds, 4),
        "memory_mib": round(last.memory_bytes / 2**20, 1),
        "peak_mib": round(last.peak_bytes / 2**20, 1),
        "calls_per_job_minute": round((last.calls - first.calls) / minutes, 2),
        "status_writes_per_job_minute": round((last.writes - first.writes) / minutes, 2),
        "reconciles_per_job_minute": round((last.reconciles - first.reconciles) / minutes, 2),
        "log_lines_per_job_minute": round((last.log_lines - first.log_lines) / minutes, 3),
    }


def spread(seconds: list[float], name: str) -> dict[str, float]:
    """Return median, 99th percentile and the longest."""
    if not seconds:
        return {}
    cut = statistics.quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds
    found = {"p50": statistics.median(seconds), "p99": cut[-1], "max": max(seconds)}
    return {f"{name}_{key}_s": round(value, 3) for key, value in found.items()}
