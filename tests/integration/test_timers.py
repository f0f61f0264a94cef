"""Timers fire exactly once in real processes: through kills, and a rescale 2 -> 3 -> 2.

The functions make windows by hand: the first row of a mote and bucket sets a timer for the end of the bucket, and
another one behind it. So the result is that of windows, which plain Python computes. A timer of the clock is set once
for each key. A state with a ttl forgets motes. Every row adds a time to the many of its mote.
"""

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.integration.test_typed_process import written
from tests.integration.through_kills import run_module_through_kills

FILES, ROWS, KEYS = 4, 1500, 25
BUCKET_US, BEHIND_US, DISORDER_US = 100_000, 30_000, 8_000
MODULE = f"""
import penstock as ps


@ps.record
class Reading:
    mote: int
    value: int
    at: ps.Time


@ps.record
class Placed:
    mote: int
    bucket: int
    value: int
    at: ps.Time


@ps.record
class Closed:
    mote: int
    bucket: int
    at: ps.Time
    count: int
    total: int


@ps.record
class Tidied:
    mote: int
    bucket: int
    at: ps.Time
    kinds: int


@ps.state
class Open:
    tidy: ps.Timer
    close: ps.Timer
    count: int = 0
    total: int = 0
    values: ps.Set[int]


@ps.record
class Ticked:
    mote: int
    bucket: int


@ps.record
class Fresh:
    mote: int
    at: ps.Time


@ps.state(ttl="40ms")
class Known:
    known: bool = False


def fresh(r: Placed, s: Known, out: ps.Out[Fresh]):
    if not s.known:
        s.known = True
        out.emit(Fresh(r.mote, r.at))


@ps.record
class Echo:
    mote: int
    at: ps.Time
    number: int
    mean: float


@ps.state
class Echoes:
    times: ps.Timers
    fired: ps.Aggregate[ps.count]
    mean: ps.Aggregate[ps.mean, int]


def ask(r: Placed, s: Echoes, out: ps.Out[Echo]):
    s.times.add(r.at + {BEHIND_US})
    s.times.add(r.at + 2 * {BEHIND_US})
    s.times.discard(r.at + 2 * {BEHIND_US})


def echo(t: ps.Time, key, s: Echoes, out: ps.Out[Echo]):
    s.fired.add(t)
    s.mean.add(t)
    out.emit(Echo(key.mote, t, s.fired.value, s.mean.value))


@ps.state
class Once:
    tick: ps.ClockTimer
    begun: bool = False


def placed(r: Reading) -> Placed:
    return Placed(r.mote, r.at // {BUCKET_US}, r.value, r.at)


def add(r: Placed, s: Open, out: ps.Out[Closed, {{"tidied": Tidied}}]):
    s.count += 1
    s.total += r.value
    s.values.add(r.value)
    if s.close is None:
        s.close = (r.bucket + 1) * {BUCKET_US}
        s.tidy = s.close + {BEHIND_US}


def close(t: ps.Time, key, s: Open, out: ps.Out[Closed]):
    out.emit(Closed(key.mote, key.bucket, t, s.count, s.total))
    s.count = -1
    if s.total % 7 == 0:
        raise ValueError(f"{{s.total}} of {{key.mote}} {{key.bucket}}")


def tidy(t: ps.Time, key, s: Open, out: ps.Out[Closed, {{"tidied": Tidied}}]):
    out.to("tidied", Tidied(key.mote, key.bucket, t, len(s.values) if s.count == -1 else -s.count))
    s.clear()


def begin(r: Placed, s: Once, out: ps.Out[Ticked], ctx):
    if not s.begun:
        s.begun, s.tick = True, ctx.time + 150_000


def tick(t: ps.Time, key, s: Once, out: ps.Out[Ticked]):
    out.emit(Ticked(key.mote, key.bucket))
"""
JOB = """
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata: {name: timers}
spec:
  replicas: 2
  checkpoint: {interval: 2s}
  job:
    parameters: {folder: .}
    graph:
      steps:
        - name: readings
          source:
            parquet: {path: "${folder}/in", rate: 400}
            eventTime: {column: at, outOfOrderness: 10ms}
        - {name: placed, map: {function: "timed_readings:placed"}}
        - name: buckets
          keyBy: [mote, bucket]
          process:
            function: "timed_readings:add"
            onError: dead-letter
            onTimer: [{timer: tidy, function: "timed_readings:tidy"}, {timer: close, function: "timed_readings:close"}]
        - {name: output, sink: {parquet: {path: "${folder}/out"}}}
        - {name: tidied, inputs: [buckets.tidied], sink: {parquet: {path: "${folder}/tidied"}}}
        - {name: bad, inputs: [buckets.dead-letter], sink: {parquet: {path: "${folder}/bad"}}}
        - name: ticks
          inputs: [placed]
          keyBy: [mote, bucket]
          process: {function: "timed_readings:begin", onTimer: [{timer: tick, function: "timed_readings:tick"}]}
        - name: fresh
          inputs: [placed]
          keyBy: [mote]
          process: {function: "timed_readings:fresh"}
        - {name: fresh_out, sink: {parquet: {path: "${folder}/fresh"}}}
        - name: echoes
          inputs: [placed]
          keyBy: [mote]
          process: {function: "timed_readings:ask", onTimer: [{timer: times, function: "timed_readings:echo"}]}
        - {name: echoed, sink: {parquet: {path: "${folder}/echoed"}}}
        - {name: ticked, inputs: [ticks], sink: {parquet: {path: "${folder}/ticked"}}}
"""


def write_input(folder: Path) -> list[dict[str, Any]]:
    """Write files, of which each has motes of its own. Rows are out of order by less than the job allows."""
    chosen, rows = random.Random(7), []
    folder.mkdir()
    for file in range(FILES):
        own = [
            {
                "mote": file * KEYS + chosen.randrange(KEYS),
                "value": chosen.randrange(40),
                "at": 1_000 * number + chosen.randrange(DISORDER_US),
            }
            for number in range(ROWS)
        ]
        rows += own
        schema = pa.schema({"mote": pa.int64(), "value": pa.int64(), "at": pa.timestamp("us")})
        pq.write_table(pa.Table.from_pylist(own, schema), folder / f"part-{file}.parquet")
    return rows


def model(rows: list[dict[str, Any]]) -> tuple[Counter[Any], Counter[Any], Counter[Any]]:
    """Return the rows of the three outputs, computed by plain Python."""
    buckets: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in rows:
        buckets[row["mote"], row["at"] // BUCKET_US].append(row["value"])
    closed: Counter[Any] = Counter()
    tidied: Counter[Any] = Counter()
    bad: Counter[Any] = Counter()
    for (mote, bucket), values in buckets.items():
        end = (bucket + 1) * BUCKET_US
        fails = sum(values) % 7 == 0
        tidied[mote, bucket, end + BEHIND_US, -len(values) if fails else len(set(values))] += 1
        if fails:
            bad[mote, bucket, f"{sum(values)} of {mote} {bucket}"] += 1
        else:
            closed[mote, bucket, end, len(values), sum(values)] += 1
    return closed, tidied, bad


def fresh(rows: list[dict[str, Any]]) -> Counter[Any]:
    """Return the rows of motes that no row has made known less than 40 ms of event time before."""
    known: dict[int, int] = {}
    found: Counter[Any] = Counter()
    for row in rows:
        if row["at"] >= known.get(row["mote"], 0):
            known[row["mote"]] = row["at"] + 40_000
            found[row["mote"], row["at"]] += 1
    return found


def echoes(rows: list[dict[str, Any]]) -> Counter[Any]:
    """Return the distinct times of each mote, numbered in their order, with the mean of those so far."""
    times: dict[int, set[int]] = defaultdict(set)
    for row in rows:
        times[row["mote"]].add(row["at"] + BEHIND_US)
    found: Counter[Any] = Counter()
    for mote, own in times.items():
        total = 0
        for n, at in enumerate(sorted(own), 1):
            total += at
            found[mote, at, n, total / n] += 1
    return found


def test_timers_fire_exactly_once_through_kills_and_rescales(tmp_path: Path) -> None:
    rows = write_input(tmp_path / "in")
    run_module_through_kills(tmp_path, "timed_readings", MODULE, JOB)

    closed, tidied, bad = model(rows)
    assert bad, "the input has timers whose function raises"
    assert len(closed) > 500
    assert written(tmp_path / "out", "mote", "bucket", "at", "count", "total") == closed
    assert written(tmp_path / "tidied", "mote", "bucket", "at", "kinds") == tidied
    assert written(tmp_path / "fresh", "mote", "at") == fresh(rows)
    assert written(tmp_path / "echoed", "mote", "at", "number", "mean") == echoes(rows)
    assert written(tmp_path / "ticked", "mote", "bucket") == Counter({row[:2]: 1 for row in tidied})
    letters = written(tmp_path / "bad", "mote", "bucket", "error")
    assert Counter({(m, b, e.rsplit("ValueError: ", 1)[-1]): n for (m, b, e), n in letters.items()}) == bad
