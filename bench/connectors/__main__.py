"""What connectors do against real servers on this machine: rates, CPU time a row, and Kafka beside other engines.

    python -m bench.connectors [PART ...] [--engine NAME ...] [--turns N] [--quick] [--out FOLDER]
    python -m bench.connectors --prepare

The parts are source, sink, through (Kafka to Kafka), postgres, lookup and s3. ``--prepare`` fetches the servers and
installs the other engines, and measures nothing. Each turn begins with another engine. ``--quick`` takes a quarter of
the rows and one turn. The exit code is 0 if all rows of every run were right.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from bench import machine, peer, records
from bench.connectors import engines, kafka, stores
from bench.connectors.runs import Run, measure
from bench.connectors.topics import DEFAULTS, Broker, Topics
from bench.endings import end_with_children
from bench.peer import Peer, PeerError
from bench.records import Record
from bench.turns import OTHERS_SHARE_MAX
from bench.variants import show_verdicts, verdict
from tools.servers import kafka as kafka_server
from tools.servers import s3 as s3_server
from tools.servers.fetched import fetched

TITLE = "connectors against real servers on the same two processors"
PARTS = ("source", "sink", "through", "postgres", "lookup", "s3")
QUICK_SHARE = 4
FORMS = ("raw", "json")
DELIVERIES = ("exactly-once", "at-least-once")
SOURCE_ROWS = THROUGH_ROWS = 5_000_000  # of one topic
SINK_ROWS = 4_000_000
APPEND_ROWS, UPSERT_ROWS, LOOKUP_ROWS, PARQUET_ROWS = 3_000_000, 1_000_000, 1_000_000, 30_000_000
COMPARED = ("rows_per_s", "rows_per_core_s")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: parts, other engines, turns, and which share (1 / ``share``) of the rows."""

    parts: Sequence[str]
    engines: Sequence[Peer]
    turns: int
    share: int


def main(arguments: list[str] | None = None) -> int:
    """Measure the parts named on the command line, or all."""
    options = _parser().parse_args(arguments)
    if unknown := sorted(set(options.part) - set(PARTS)):
        raise SystemExit(f"there is no part {unknown[0]!r}: {', '.join(PARTS)}")
    end_with_children()
    ready, record = _prepared(options.engine)
    if options.prepare:
        return 0 if not record["not_run"] else 1
    turns, share = (1, QUICK_SHARE) if options.quick else (options.turns, 1)
    begun = time.monotonic()
    plan = Plan(options.part or PARTS, ready, turns, share)
    for part in (_kafka, _postgres, _s3):
        record["runs"] += part(plan)
    record["verdicts"] = verdicts(record["runs"])
    show_verdicts(record["verdicts"])
    path = records.write(record["stem"], record, options.out)
    print(f"   kept in {path}, after {time.monotonic() - begun:.0f} s")
    return 0 if all(run["exact"] for run in record["runs"]) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m bench.connectors", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--engine", nargs="*", default=peer.names(engines.FOLDER), help="beside Penstock (all)")
    parser.add_argument("--turns", type=int, default=3, help="times that each engine runs from topic to topic (3)")
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows, one turn")
    parser.add_argument("--prepare", action="store_true", help="fetch and install, and measure nothing")
    parser.add_argument("--out", type=Path, default=records.OUT, help="folder of the results")
    return parser


def _prepared(names: Sequence[str]) -> tuple[list[Peer], Record]:
    """Fetch the servers and install the engines. Returns those that can run, and the record that begins."""
    fetched("kafka", kafka_server.VERSION)
    fetched("s3proxy", s3_server.VERSION)
    made_on = machine.describe()
    stem, record = records.of_scenario("connectors", TITLE, "bench.connectors", made_on, [])
    record |= {"stem": stem, "engines": {}, "not_run": {}}
    ready = []
    for name in names:
        engine = peer.load(name, engines.FOLDER)
        try:
            versions = peer.install(engine)
        except PeerError as error:
            print(f"   {name} is left out: {error}")
            record["not_run"][name] = str(error)
            continue
        told = {k: v for k, v in asdict(engine).items() if k not in {"name", "environment", "lock"}}
        record["engines"][name] = {**told, "versions": versions}
        ready.append(engine)
    return ready, record


def _kafka(plan: Plan) -> Iterator[Record]:
    if not set(plan.parts) & {"source", "sink", "through"}:
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-kafka-") as folder:
        broker = Broker(Path(folder), DEFAULTS)
        broker.start()
        try:
            yield from _with_broker(Topics(broker), plan)
        finally:
            broker.stop()


def _with_broker(topics: Topics, plan: Plan) -> Iterator[Record]:
    sizes = {SOURCE_ROWS} if "source" in plan.parts else set()
    sizes |= {THROUGH_ROWS, *(engine.rows for engine in plan.engines)} if "through" in plan.parts else set()
    filled = {rows // plan.share: topics.fill(kafka.words(rows // plan.share)) for rows in sorted(sizes)}
    for turn in range(plan.turns):
        print(f"\n== turn {turn}", flush=True)
        for made in _kafka_runs(topics, filled, plan, turn):
            yield measure(made(), turn)
            topics.keep_only(set(filled.values()))


def _kafka_runs(topics: Topics, filled: Mapping[int, str], plan: Plan, turn: int) -> Iterator[Callable[[], Run]]:
    if "source" in plan.parts and not turn:
        rows = SOURCE_ROWS // plan.share
        yield from (partial(kafka.source, topics, filled[rows], rows, form) for form in FORMS)
    if "sink" in plan.parts and not turn:
        for form in FORMS:
            yield from (partial(kafka.sink, topics, SINK_ROWS // plan.share, form, delivery) for delivery in DELIVERIES)
    if "through" in plan.parts:
        order: list[Peer | None] = [None, *plan.engines]
        shift = turn % len(order)
        for engine in order[shift:] + order[:shift]:
            rows = (engine.rows if engine else THROUGH_ROWS) // plan.share
            yield partial(kafka.through, topics, filled[rows], rows, engine)


def _postgres(plan: Plan) -> Iterator[Record]:
    if not set(plan.parts) & {"postgres", "lookup"}:
        return
    server = stores.Postgres(stores.PASSWORD)
    try:
        server.start()
        table = stores.Table(server)
        if "postgres" in plan.parts:
            yield measure(stores.append(table, APPEND_ROWS // plan.share), 0)
            yield measure(stores.upsert(table, UPSERT_ROWS // plan.share), 0)
        for cached in (False, True) if "lookup" in plan.parts else ():
            yield measure(stores.lookup(table, LOOKUP_ROWS // plan.share, cached=cached), 0)
        table.close()
    finally:
        server.remove()


def _s3(plan: Plan) -> Iterator[Record]:
    if "s3" not in plan.parts:
        return
    with tempfile.TemporaryDirectory(prefix="penstock-bench-s3-") as folder:
        store = stores.Store(Path(folder), stores.USER, stores.PASSWORD)
        store.start()
        try:
            yield measure(stores.parquet(store, PARQUET_ROWS // plan.share), 0)
        finally:
            store.stop()


def verdicts(runs: Sequence[Record]) -> list[Record]:
    """Compare Penstock with each engine from topic to topic, over the turns that were exact and undisturbed."""
    sound = {
        (run["name"], run["turn"]): run["results"]
        for run in runs
        if run["exact"] and run["results"]["others_share"] <= OTHERS_SHARE_MAX
    }
    ours, found = kafka.name_of(None), []
    for name in sorted({n for n, _ in sound if n.startswith(kafka.THROUGH)} - {ours}):
        turns = [turn for n, turn in sound if n == name and (ours, turn) in sound]
        for figure in COMPARED if turns else ():
            pairs = ([sound[n, turn][figure] for turn in turns] for n in (name, ours))
            found.append(verdict((name, ours), figure, *pairs))
    return found


if __name__ == "__main__":
    sys.exit(main())
