"""The same word count without an engine, in the same run: a yardstick of the machine, no bound.

    bench.run --> two processes of bench.bare_part <-- words --> over Arrow Flight

Two processes exchange words as the two workers of a scenario do. Each has a thread that reads
words and deals them out by the hash of the key, one that counts, and Flight's own. Reading,
hashing, dealing out and counting are the engine's compiled loops. All else is left out: credit,
order across attempts, barriers, checkpoints, watermarks, a leader, reports; when a process dies
its rows are lost. What an engine costs beside it is the price of those. It is one way to do it: an
engine may be faster where the other way suits it better, as runs with 10 M words are.
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

SECONDS = 15.0  # of a run at a fixed rate, the warm-up included
ROWS_SHARE = 4  # at full rate: so many times fewer rows than the engine gets
BEST_IS_LEAST = ("_ms", "_ns_per_row")


def applies(scenario: Scenario) -> bool:
    """Say whether it is asked for, and there is an exchange: between two workers."""
    return scenario.bare and scenario.splits == PROCESSES


def measure(scenario: Scenario) -> dict[str, float]:
    """Exchange the words of a scenario for a while; return rate, CPU and latency.

    Raises AssertionError when a count is wrong.
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
    """Return the best of each figure, under the name ``bare_...``."""
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
    """Let all parts run, connected to each other, and return what they told."""
    with ExitStack() as running:
        children = [running.enter_context(_child(part)) for part in parts]
        for child in children:
            running.callback(child.kill)  # first of all, should another one have failed
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
