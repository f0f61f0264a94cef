"""The same word count without an engine, in the same run: a measure of the machine, not a limit.

    bench.run --> two processes of bench.bare_part <-- words --> over Arrow Flight

Two processes exchange words as the two workers of a scenario do. Each has a thread that reads words
and partitions them by the hash of the key, a thread that counts, and Flight's own threads. Reading,
hashing, partitioning and counting use the engine's compiled loops. Credit, order across attempts,
barriers, checkpoints, watermarks, a leader and reports are left out. If a process dies, its rows
are lost. The difference to an engine is the price of these parts. This is only one way to write it,
and an engine may be faster: runs with 10 M different words are.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from bench import histogram
from bench.bare_part import PROCESSES, Part
from bench.oracle import expected, words_spec
from bench.scenario import Scenario
from penstock.base.values import replace

SECONDS = 15.0  # length of a run at a fixed rate, with its warm-up
ROWS_SHARE = 4  # at full rate the engine gets this many times more rows
BEST_IS_LEAST = ("_ms", "_ns_per_row")


def applies(scenario: Scenario) -> bool:
    """Return whether the scenario asks for this measurement, and has two workers that exchange words."""
    return scenario.bare and scenario.splits == PROCESSES


def measure(scenario: Scenario) -> dict[str, float]:
    """Exchange the words of a scenario for some seconds. Returns rate, CPU and latency.

    Raises AssertionError if a count is wrong.
    """
    short = _shorter(scenario)
    told = _run([_part(short, number) for number in range(PROCESSES)])
    want = expected(short)
    assert sum(t["rows"] for t in told) == want["rows"], "the bare exchange has lost rows"
    assert not (sum(t["sum"] for t in told) - want["count"]) % 2**64, "its counts are wrong"
    took = max(t["ended"] for t in told) - min(t["begun"] for t in told)
    found = {
        "rows_per_s": want["rows"] / took,
        "cpu_ns_per_row": sum(t["cpu_s"] for t in told) / want["rows"] * 1e9,
    }
    ages = histogram.merged({int(k): n for k, n in t["ages"].items()} for t in told)
    return found | histogram.figures(ages)


def best(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the best value of each figure, with names ``bare_...``."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for run in runs for name in run if name != "markers"):
        pick = min if name.endswith(BEST_IS_LEAST) else max
        found[f"bare_{name}"] = round(pick(run[name] for run in runs), 3)
    return found


def _shorter(scenario: Scenario) -> Scenario:
    rows = scenario.rows and max(scenario.rows // ROWS_SHARE, 1)
    return replace(scenario, rows=rows, seconds=min(scenario.seconds, SECONDS))


def _part(scenario: Scenario, number: int) -> Part:
    return Part(
        number=number,
        words=words_spec(scenario),
        rate=scenario.rate and scenario.rate // PROCESSES,
        warmup_s=min(scenario.warmup_s, scenario.seconds / 3),
    )


def _run(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Run all parts, connected to each other, and return what they reported."""
    with ExitStack() as running:
        children = [running.enter_context(_child(part)) for part in parts]
        for child in children:
            running.callback(child.kill)  # stopped first if another part fails
        ports = [_heard(child) for child in children]
        for child, port in zip(children, reversed(ports), strict=True):
            _tell(child, port)
        told = [json.loads(_heard(child)) for child in children]
        for child in children:
            _tell(child, "end")
        return told


def _child(part: Part) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.bare_part", json.dumps(asdict(part))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _heard(child: "subprocess.Popen[str]") -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, "a process of the bare exchange has ended: its error is above"
    return line.strip()


def _tell(child: "subprocess.Popen[str]", line: str) -> None:
    assert child.stdin is not None
    child.stdin.write(line + "\n")
    child.stdin.flush()
