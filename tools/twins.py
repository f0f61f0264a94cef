"""Fails on a class or file name that occurs twice without a stated reason: ``python -m tools.twins``.

A reader who searches for a name should find one thing. Below worker/, operator/, spark/ and sim/ a
name may occur twice only if :data:`CLASSES` or :data:`FILES` gives the reason. An entry whose name
no longer occurs twice is an error too, so the lists shrink with the code.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.sources import python_files

ROOTS = ("worker/", "operator/", "spark/", "sim/")
ALWAYS_THERE = ("__init__.py", "__main__.py")  # Python gives these names

OPERATOR = "the operator and the worker are separate programs: no module imports both"
SIMULATED = "the simulator's part that stands for the shipped one and does the same"
CONTRACT = "the contract describes it as data, and the other class carries it out"
OWN_PROGRAM = "the spark package is a program of its own, and this is its own part of that kind"
TWO_SIMULATIONS = "the simulation of the engine and that of the operator, which share nothing"
HINT = "a step in the graph, and the hint of a field of a state, which only type checkers see"
KIND = "each program has one file of this kind, and its folder says of which program"

CLASSES: Mapping[str, str] = {
    "Access": OPERATOR,
    "Aggregate": HINT,
    "Asked": SIMULATED,
    "Call": "a user function in the graph, and a storage call of the simulator",
    "ClaimOutput": SIMULATED,
    "Client": OPERATOR,
    "Condition": "a condition of an object in Kubernetes, and the simulator's, named as Python's is",
    "Doomed": "the simulator's message, and the part of a world that can receive it",
    "Event": "an event of Kubernetes, and the simulator's event of threads, named as Python's is",
    "Events": OPERATOR,
    "ForkServer": "the keeper's side of the fork server, and the process itself",
    "Found": "rows that a lookup found, public in the Python API, and a result of the simulator's search",
    "Job": "public in the Python API, and a section of the StreamJob",
    "Kind": OPERATOR,
    "Leave": SIMULATED,
    "Map": HINT,
    "Mutant": TWO_SIMULATIONS,
    "Lookup": CONTRACT,
    "Origin": "where a value of a file was written, and the stored tag of a restored job",
    "Pending": "public in the Python API, and a section of the stored status",
    "Prepared": "a prepared job of the in-process runner, and an action of the task's core",
    "ReadLease": SIMULATED,
    "RefusedError": "the dead letters of users contain the worker's name; " + OPERATOR,
    "Reply": SIMULATED,
    "Result": SIMULATED,
    "Role": OPERATOR,
    "Rows": "a stored tag of ingest messages, and a type of the users' test kit",
    "Sink": CONTRACT,
    "Snapshot": "an action of the task's core, and a value of the users' test kit",
    "Source": CONTRACT,
    "Step": CONTRACT,
    "Stream": "public in the Python API, and a file object of the Kubernetes client",
    "SwapUnknown": "the exception of a store, and the event that reports it to a core",
    "Workers": OPERATOR,
    "World": TWO_SIMULATIONS,
    "WriteLease": SIMULATED,
    "Written": SIMULATED,
}

FILES: Mapping[str, str] = {
    "client.py": KIND,
    "clock.py": "the clock algorithm of a table, and the clock of the users' test kit",
    "exchange.py": SIMULATED,
    "folders.py": KIND,
    "keeper.py": SIMULATED,
    "lease.py": OPERATOR,
    "logs.py": KIND,
    "main.py": KIND,
    "memory.py": "the allocator of the engine's process, and stores in memory for tests of users",
    "ports.py": SIMULATED,
    "registry.py": KIND,
    "replay.py": OWN_PROGRAM,
    "run.py": "the command, and the runner of a job in the caller's process",
    "scenario.py": OWN_PROGRAM,
    "settings.py": KIND,
    "status.py": CONTRACT,
    "summary.py": OWN_PROGRAM,
    "trust.py": CONTRACT,
    "worker.py": "the command that starts a worker, and the worker's engine",
    "workers.py": OPERATOR,
    "world.py": TWO_SIMULATIONS,
    "workload.py": "the pods of a job, and the input of a simulated job",
}


def names_of(sources: Mapping[str, str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return where each class name and each file name occurs, by name; nested classes count."""
    classes: dict[str, list[str]] = defaultdict(list)
    files: dict[str, list[str]] = defaultdict(list)
    for path, source in sources.items():
        name = path.rpartition("/")[2]
        if name not in ALWAYS_THERE:
            files[name].append(path)
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{path}:{node.lineno}")
    return classes, files


def complaints(what: str, places: Mapping[str, Sequence[str]], allowed: Mapping[str, str]) -> list[str]:
    """Return one line for each name without a reason, and for each reason without two names."""
    twice = {name: found for name, found in places.items() if len(found) > 1}
    unexplained = [
        f"{found[0]}: {what} {name} is also at {', '.join(found[1:])}: rename one, or give the reason in tools/twins.py"
        for name, found in sorted(twice.items())
        if name not in allowed
    ]
    unused = [
        f"tools/twins.py: {what} {name} does not occur twice any more: remove its reason"
        for name in sorted(allowed)
        if name not in twice
    ]
    return unexplained + unused


def main(repository: Path) -> int:
    """Print complaints and a summary. Gives the exit status."""
    paths = {str(p.relative_to(repository)): p for p in python_files(repository)}
    sources = {path: p.read_text() for path, p in paths.items() if path.startswith(ROOTS)}
    classes, files = names_of(sources)
    found = complaints("class", classes, CLASSES) + complaints("file", files, FILES)
    for line in found:
        print(line)
    print(f"twins: {len(CLASSES)} class names and {len(FILES)} file names occur twice, each with a reason")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
