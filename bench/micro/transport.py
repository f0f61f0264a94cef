"""Cost of the transport alone: one sending and one receiving process, one channel, no steps.

    python bench/micro/transport.py [--seconds 2] [--payload 32]

For each batch size, with output buffers on and off: rows per second, and CPU microseconds per
batch: of the sending task's thread, of its whole process, and of the receiving process.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from threading import Thread

import pyarrow as pa

from penstock.contract.ids import (
    Attempt,
    ChannelId,
    Incarnation,
    JobUid,
    Ordinal,
    StageIndex,
    TaskId,
    Version,
)
from penstock.contract.settings import CompressionMode, CompressionSettings, ShuffleSettings
from penstock.engine.main import SWITCH_INTERVAL_S
from penstock.model.elements import Data, EndOfStream
from penstock.transport.batches import measure
from penstock.transport.exchange import Exchange, Identity, Peer, Wiring
from penstock.transport.input import Wakeup

SCHEMA = pa.schema([("word", pa.string())])
SENDER = TaskId(StageIndex(0), Ordinal(0), 0)
RECEIVER = TaskId(StageIndex(1), Ordinal(1), 0)
CHANNEL = ChannelId(0, SENDER, RECEIVER)


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement. ``flush_s`` 0 turns the output buffer off."""

    rows: int
    flush_s: float
    payload: int
    seconds: float
    lz4: bool = False

    def settings(self) -> ShuffleSettings:
        """Return the settings of both processes."""
        mode = CompressionMode.LZ4 if self.lz4 else CompressionMode.NONE
        return ShuffleSettings(flush_interval_s=self.flush_s, compression=CompressionSettings(mode, 8.0))


def member(ordinal: int, case: Case) -> Exchange:
    """Make the transport of one of the two processes."""
    life = Incarnation(f"life-{ordinal}")
    identity = Identity(JobUid("bench"), Ordinal(ordinal), life)
    return Exchange(identity, case.settings(), lambda event: print(event, file=sys.stderr))


def wire(exchange: Exchange, locations: list[str], task: TaskId, wakeup: Wakeup) -> None:
    """Open the channel between the two."""
    members = {Ordinal(n): Peer(Incarnation(f"life-{n}"), where) for n, where in enumerate(locations)}
    exchange.reset(Attempt(1))
    wiring = Wiring(members, (CHANNEL,), {0: SCHEMA}, {task: wakeup}, Version(1))
    exchange.open_attempt(Attempt(1), wiring)


def receive(case: Case) -> None:
    """Receive until the end of the stream. Returns how much arrived and what it cost."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    exchange, wakeup = member(1, case), Wakeup()
    print(exchange.location, flush=True)
    wire(exchange, [sys.stdin.readline().strip(), exchange.location], RECEIVER, wakeup)
    task = exchange.input(RECEIVER)
    rows, first, cpu = 0, 0.0, 0.0
    while True:
        got = task.poll(lambda _: True, lambda _: False)
        if got is None:
            wakeup.wait()
            continue
        if isinstance(got[1], EndOfStream):
            break
        if isinstance(got[1], Data):
            if not rows:
                first, cpu = time.monotonic(), time.process_time()
            rows += got[1].rows
    took = time.monotonic() - first
    cost = time.process_time() - cpu
    stats = exchange.stats().inputs[0]
    answer = {"rows": rows, "took": took, "cpu": cost, "elements": stats.elements}
    print(json.dumps(answer), flush=True)
    sys.stdin.readline()
    os._exit(0)


def measure_case(case: Case) -> dict[str, float]:
    """Send for the time of the case; return the figures."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--receive", json.dumps(vars_of(case))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    exchange, wakeup = member(0, case), Wakeup()
    location = child.stdout.readline().strip()
    child.stdin.write(exchange.location + "\n")
    child.stdin.flush()
    wire(exchange, [exchange.location, location], SENDER, wakeup)
    sent: dict[str, float] = {}
    sender = Thread(target=send, args=(case, exchange, wakeup, sent))
    sender.start()
    sender.join()
    answer = json.loads(child.stdout.readline())
    cpu = time.process_time() - sent.pop("cpu_start")
    child.stdin.write("\n")
    child.stdin.flush()
    child.wait()
    exchange.close()
    batches = sent["batches"]
    assert answer["rows"] == batches * case.rows, "rows were lost"
    return {
        "rows_per_s": answer["rows"] / answer["took"],
        "task_us": sent["task_cpu"] / batches * 1e6,
        "sender_us": cpu / batches * 1e6,
        "receiver_us": answer["cpu"] / batches * 1e6,
        "batches_per_element": batches / answer["elements"],
    }


def send(case: Case, exchange: Exchange, wakeup: Wakeup, sent: dict[str, float]) -> None:
    """Send the same batch again and again, as fast as a task can."""
    batch = pa.record_batch([["x" * case.payload] * case.rows], schema=SCHEMA)
    output = exchange.output(CHANNEL)
    sent["cpu_start"], start = time.process_time(), time.thread_time()
    until, count = time.monotonic() + case.seconds, 0
    while time.monotonic() < until:
        data = Data(batch, case.rows, measure(batch))
        while not output.try_send(data):
            wakeup.wait()
        count += 1
    output.put(EndOfStream())
    sent["task_cpu"] = time.thread_time() - start
    sent["batches"] = count


def vars_of(case: Case) -> dict[str, float]:
    """Return a case as data for JSON."""
    return {name: getattr(case, name) for name in Case.__slots__}


def main() -> None:
    """Measure all cases and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--payload", type=int, default=32)
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.receive:
        receive(Case(**json.loads(options.receive)))
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    print("rows  buffer   M rows/s  us per batch: task  sender  receiver  batches per element")
    for rows in (8192, 1000, 100, 10):
        for flush_s in (0.005, 0.0):
            case = Case(rows, flush_s, options.payload, options.seconds)
            r = measure_case(case)
            print(
                f"{rows:5d} {'on' if flush_s else 'off':>6} {r['rows_per_s'] / 1e6:11.2f} "
                f"{r['task_us']:18.1f} {r['sender_us']:7.1f} {r['receiver_us']:9.1f} "
                f"{r['batches_per_element']:14.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
