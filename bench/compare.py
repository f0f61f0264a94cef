"""``make bench-compare``: Penstock and other engines at the same job, alternating, counts checked.

    python -m bench.compare [ENGINE ...] [--turns N] [--continue FILE] [--out FOLDER]
    python -m bench.compare --recount FILE ...

Every turn runs each engine once. Each turn begins with another engine, so that changes in the speed
of the machine do not change the ratios. ``--continue`` adds turns to an earlier file, so a comparison
may be run in parts. ``--recount`` runs no engine: it computes rates and ratios of kept files again
from their marks. The exit code is 0 if every count of every engine that ran was right.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bench import inputs, machine, oracle, peer, processes, records, runner, table
from bench.draw import pictures
from bench.endings import end_with_children
from bench.peer import Answer, Peer, PeerError
from bench.records import Record
from bench.samples import Samples, Series
from bench.scenario import Scenario
from bench.turns import PENSTOCK, rates, ratios

PENSTOCK_ROWS = 80_000_000
CHECKPOINT_S = 10.0
TITLE = "keyed word count, 10,000 words of 32 B, two cores, checkpoints every 10 s"


def main(arguments: list[str] | None = None) -> int:
    """Compare the engines named on the command line with Penstock, or all that are known."""
    options = _parser().parse_args(arguments)
    if options.recount:
        for path in options.recount:
            recount(path)
        return 0
    end_with_children()
    made_on = machine.describe()
    print(f"== {made_on['cpu']}, {made_on['cores']} cores, revision {made_on['revision']}")
    record = _begun(made_on, options)
    engines = [load for name in options.engine or peer.names() if (load := _ready(name, record))]
    for _ in range(options.turns):
        turn = 1 + max((run["turn"] for run in record["runs"]), default=-1)
        print(f"\n== turn {turn}", flush=True)
        for run in one_turn(engines, turn):
            record["runs"].append(run)
            record["verdicts"] = ratios(record["runs"])
            path = records.write(record["stem"], record, options.out)  # a later engine may hang
    show(record)
    pictures.draw(record, options.out / record["stem"])
    print(f"   kept in {path}")
    return 0 if all(run["exact"] for run in record["runs"]) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.compare")
    parser.add_argument("engine", nargs="*", help=f"of {', '.join(peer.names())}")
    parser.add_argument("--turns", type=int, default=5, help="times that each engine runs (5)")
    parser.add_argument("--continue", dest="go_on", type=Path, help="add to this result")
    parser.add_argument("--recount", type=Path, nargs="+", help="make figures anew from marks")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    return parser


def _begun(made_on: Record, options: argparse.Namespace) -> Record:
    if options.go_on:
        found: Record = json.loads(options.go_on.read_text())
        if found["machine"]["revision"] != made_on["revision"]:
            print("   note: the turns before were run with another revision")
        return found
    stem = f"compare-{made_on['revision']}-{time.strftime('%Y%m%dT%H%M%S')}"
    command = records.command_line("bench.compare", sys.argv[1:])
    return {
        "kind": "compare", "title": TITLE, "stem": stem, "command": command, "machine": made_on,
        "engines": {}, "not_run": {}, "verdicts": [], "runs": [],
    }  # fmt: skip


def _ready(name: str, record: Record) -> Peer | None:
    """Install an engine, and record its versions or why it cannot run here."""
    found = peer.load(name)
    try:
        versions = peer.install(found)
    except PeerError as error:
        print(f"   {name} is left out: {error}")
        record["not_run"][name] = str(error)
        return None
    told = {k: v for k, v in asdict(found).items() if k not in {"name", "environment", "lock"}}
    record["engines"][name] = {**told, "versions": versions}
    return found


def one_turn(engines: list[Peer], turn: int) -> Iterator[Record]:
    """Run every engine once, Penstock among them; each turn begins with another one."""
    order: list[Peer | None] = [None, *engines]
    shift = turn % len(order)
    for engine in order[shift:] + order[:shift]:
        run = _penstock() if engine is None else _peer(engine)
        wrong = "" if run["exact"] else f"   NOT EXACT: {run['wrong'][0]}"
        rate = table.number(run["results"]["rows_per_s"])
        print(f"   {run['name']:12s} {rate:>14} rows/s{wrong}", flush=True)
        yield {**run, "turn": turn}


def task_of(rows: int) -> Scenario:
    """Return the words of a comparison: two splits."""
    return Scenario("compare", TITLE, workers=2, rows=rows // 2, warmup_s=0.0)


def _penstock() -> Record:
    scenario = task_of(PENSTOCK_ROWS)
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    others = processes.Others()
    samples = runner.run(scenario, folder)
    others_share = others.share()
    wrong = oracle.differences(oracle.expected(scenario), samples.totals)
    shutil.rmtree(folder)
    marks = _marks(samples)
    used = {
        "memory_max_mib": max((m for _, m in samples.memory), default=0) / 2**20,
        "seconds": samples.seconds,
        "others_share": others_share,
    }
    return _run(PENSTOCK, PENSTOCK_ROWS, marks, used, wrong)


def _marks(samples: Samples) -> Series:
    total, found = 0.0, []
    for at, rows in samples.ticks():
        total += rows
        found.append((at + 0.1, total))
    return found


def _peer(engine: Peer) -> Record:
    scenario = task_of(engine.rows)
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-bench-{engine.name}-"))
    inputs.prepare(scenario, folder, engine.inputs, CHECKPOINT_S)
    others = processes.Others()
    try:
        answer = peer.run(engine, folder, scenario.splits, CHECKPOINT_S)
        others_share = others.share(answer.cpu_s)
    except PeerError as error:
        return _run(engine.name, engine.rows, [], {"others_share": others.share()}, [str(error)])
    finally:
        shutil.rmtree(folder)
    wrong = inputs.differences(inputs.expected_counts(scenario), answer.counts)
    return _run(engine.name, engine.rows, answer.marks, _used(answer, others_share), wrong)


def _used(answer: Answer, others_share: float) -> dict[str, float]:
    return {
        "memory_max_mib": answer.memory_max / 2**20,
        "cpu_s": answer.cpu_s,
        "emitted": answer.emitted,
        "seconds": answer.seconds,
        "others_share": others_share,
    }


def _run(name: str, rows: int, marks: Series, used: dict[str, float], wrong: list[str]) -> Record:
    results = {"rows": rows, **rates(marks), **{k: round(v, 2) for k, v in used.items()}}
    return {"name": name, "exact": not wrong, "wrong": wrong, "results": results, "marks": marks}


def recount(path: Path) -> None:
    """Make the rates and ratios of a kept file anew from its marks, and draw them."""
    record: Record = json.loads(path.read_text())
    for run in record["runs"]:
        run["results"] |= rates([(at, rows) for at, rows in run["marks"]])
    record["verdicts"] = ratios(record["runs"])
    record["recounted"] = "rates and ratios were made anew from the marks: see bench/turns.py"
    records.write(path.stem, record, path.parent)
    pictures.draw(record, path.parent / path.stem)
    print(f"\n== {path.stem}")
    show(record)


def show(record: Record) -> None:
    """Print rates and ratios as a table, and which engines paused or have no rate."""
    body = [
        [
            f"{v['base']}{'' if v['figure'] == 'rows_per_s' else ', best third'}",
            " / ".join(f"{x / 1e6:.3g}" for x in v["base_spread"]),
            " / ".join(f"{x / 1e6:.3g}" for x in v["other_spread"]),
            f"{v['ratio']:.1f}",
            f"{v['interval'][0]:.1f} - {v['interval'][1]:.1f}",
            f"{v['extremes'][0]:.1f} - {v['extremes'][1]:.1f}",
            str(v["pairs"]),
        ]
        for v in record["verdicts"]
    ]
    head = [
        "engine",
        "M rows/s (least / median / most)",
        "Penstock beside it",
        "ratio",
        "95 %",
        "least - most",
        "turns",
    ]
    if body:
        print("\n" + table.rows(head, body))
    for line in notes(record["runs"]):
        print(f"   {line}")


def notes(runs: Sequence[Record]) -> list[str]:
    """Return for each engine its longest pause, or that it has no window."""
    found = []
    for name in sorted({run["name"] for run in runs}):
        told = [r["results"] for r in runs if r["name"] == name and r["exact"]]
        steps = [t["longest_step_s"] for t in told if "longest_step_s" in t]
        if told and not any(t["rows_per_s"] for t in told):
            found.append(f"{name}: no mark behind its warm-up but the last one: no rate")
        elif steps:
            longest = f"{min(steps):.2f} to {max(steps):.2f} s"
            found.append(f"{name}: longest time from one mark to the next, by turn: {longest}")
    return found


if __name__ == "__main__":
    sys.exit(main())
