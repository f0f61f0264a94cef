"""Messages wake the thread that waits for them, and no thread of gRPC's own in between."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl

from penstock.transport.polling import let_waiting_threads_poll

TIMES = 500
BATCH = pa.record_batch({"x": [1]})


class Echo(fl.FlightServerBase):
    def do_exchange(self, context, descriptor, reader, writer):
        writer.begin(BATCH.schema)
        for chunk in reader:
            writer.write_batch(chunk.data)


def switches():
    total = 0
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            if (task / "comm").read_text().strip() == "event_engine":
                told = (task / "status").read_text().partition("voluntary_ctxt_switches:")[2]
                total += int(told.split()[0])
    return total


if sys.argv[1] == "set":
    let_waiting_threads_poll()
server = Echo("grpc://127.0.0.1:0")
client = fl.connect(f"grpc://127.0.0.1:{server.port}")
writer, reader = client.do_exchange(fl.FlightDescriptor.for_path("x"))
writer.begin(BATCH.schema)
before = switches()
for _ in range(TIMES):
    writer.write_batch(BATCH)
    reader.read_chunk()
print((switches() - before) / TIMES, flush=True)
os._exit(0)
"""


def switches_per_message(setting: str, **environment: str) -> float:
    """Return how often threads of gRPC's own slept and woke for one message there and back."""
    plain = {k: v for k, v in os.environ.items() if k != "GRPC_EXPERIMENTS"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, setting],
        capture_output=True, text=True, check=True, timeout=60, env={**plain, **environment},
    )  # fmt: skip
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_message_wakes_the_waiting_thread_without_a_thread_of_grpc() -> None:
    # In a process of its own: gRPC reads the setting once.
    assert switches_per_message("set") < 0.5 * switches_per_message("unset")


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_a_setting_of_the_environment_is_kept() -> None:
    outside = switches_per_message("set", GRPC_EXPERIMENTS="event_engine_client")
    assert outside > 0.5 * switches_per_message("unset")
