"""Flight between the engines of one simulation. It takes the place of two names of the transport:

    dial (transport/stream.py)            FlightServer (transport/server.py)

Everything above them is the code that ships: links, streams, handshakes, admission, credit. A call has
two pipes, one in each direction. A message takes a time that the seed chooses, and none overtakes
another. A cut link stalls a call, as TCP does. When it stalls too long, or when one of its processes
dies, it breaks: then both ends get an error, and what was under way is lost.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.flight as fl

from sim.kernel.faults import Faults, Verdict
from sim.kernel.kernel import SimKernel
from sim.kernel.network import BREAK_US, Network
from sim.real_engine.thread_scheduler import SimThread, ThreadScheduler

MESSAGES_MAX = 16  # on their way before a writer waits: the window of the connection
SPEEDS_US = (0, 500, 10_000)  # a message takes up to this time; the seed chooses one for the run

Handle = Callable[[Any, bytes, Any, Any], None]


@dataclass(frozen=True, slots=True)
class Stalled:
    """The time limit of a call whose link was cut."""

    call: int


@dataclass(frozen=True, slots=True)
class FlightMessage:
    """What a reader gets; the names are Flight's. ``data``: a batch, None, or what a sender of pushed rows has sent."""

    data: Any
    app_metadata: pa.Buffer


class Listening(Protocol):
    """A server in the network: the process that it is of, and what handles a call."""

    process: str

    def serve(self, call: "Call", command: bytes) -> None:
        """Handle one call, on a thread of the process."""
        ...


class Pipe:
    """One direction of a call."""

    def __init__(self, network: "FlightNetwork", call: "Call", source: str, target: str) -> None:
        self._network = network
        self._call = call
        self._ends = (source, target)
        self._messages: deque[tuple[int, FlightMessage]] = deque()
        self._waiting: list[SimThread] = []
        self._end: Exception | None = None
        self._last_us = 0
        self.schema: pa.Schema | None = None

    def write(self, message: FlightMessage) -> None:
        """Send. Blocks while too much is on its way. Raises FlightError when the call is broken."""
        self._network.scheduler.point()
        while len(self._messages) >= MESSAGES_MAX and self._end is None:
            self._wait(None)
        if self._end is not None:
            raise fl.FlightServerError("closed") if isinstance(self._end, StopIteration) else self._end
        self._last_us = max(self._last_us, self._network.kernel.now_us + self._network.delay_us())
        self._messages.append((self._last_us, message))
        self.wake()

    def read(self) -> FlightMessage:
        """Take the next message. Raises StopIteration at the end, FlightError when the call is broken."""
        self._network.scheduler.point()
        while True:
            wait_us = None
            if self._messages and not self._network.cut(*self._ends):
                wait_us = self._messages[0][0] - self._network.kernel.now_us
                if wait_us <= 0:
                    self.wake()
                    return self._messages.popleft()[1]
            if not self._messages and self._end is not None:
                raise self._end
            self._wait(wait_us)

    def close(self, end: Exception, *, lose: bool = False) -> None:
        """End behind the last message; with ``lose`` what is on its way is lost."""
        if self._end is None or lose:
            self._end = end if self._end is None else self._end
            if lose:
                self._messages.clear()
            self.wake()

    def wake(self) -> None:
        """Let all that wait here look again."""
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._network.scheduler.wake(thread)

    def _wait(self, timeout_us: int | None) -> None:
        scheduler = self._network.scheduler
        self._waiting.append(scheduler.current)
        scheduler.block(timeout_us)
        if scheduler.current in self._waiting:
            self._waiting.remove(scheduler.current)


class Call:
    """One DoExchange call. The server's handler gets it as its context."""

    def __init__(self, network: "FlightNetwork", client: str, server: str) -> None:
        self._network = network
        self.ends = (client, server)
        self.up = Pipe(network, self, client, server)
        self.down = Pipe(network, self, server, client)
        self.answered = True
        self._error: Exception | None = None
        self._over = False
        self._waiting: list[SimThread] = []

    @property
    def over(self) -> bool:
        """Return whether the handler has ended or the call is broken."""
        return self._over

    def is_cancelled(self) -> bool:
        """Return whether the call is broken."""
        return self._error is not None

    def broke(self, error: Exception) -> None:
        """Break: both ends get the error."""
        self._error = self._error or error
        self.up.close(error, lose=True)
        self.down.close(error, lose=True)
        self.end()

    def end(self, error: Exception | None = None) -> None:
        """The handler has ended."""
        self._error = self._error or error
        self._over = True
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._network.scheduler.wake(thread)

    def wait_for_end(self) -> None:
        """Wait for the handler. Raises the error of the call."""
        while not self._over:
            self._waiting.append(self._network.scheduler.current)
            self._network.scheduler.block()
        if self._error is not None:
            raise self._error


class FlightReader:
    """The reading end of a pipe; the names are Flight's."""

    def __init__(self, pipe: Pipe, call: Call) -> None:
        self._pipe = pipe
        self._call = call

    def read_chunk(self) -> FlightMessage:
        """Take the next message."""
        return self._pipe.read()

    @property
    def schema(self) -> pa.Schema | None:
        """Return the schema of the batches."""
        return self._pipe.schema

    def cancel(self) -> None:
        """Break the call."""
        if not self._call.is_cancelled():
            self._call.broke(fl.FlightCancelledError("Cancelled"))


class FlightWriter:
    """The writing end of a pipe; the names are Flight's."""

    def __init__(self, pipe: Pipe, call: Call) -> None:
        self._pipe = pipe
        self._call = call

    def begin(self, schema: pa.Schema) -> None:
        """Announce the schema."""
        self._pipe.schema = schema

    def write_metadata(self, data: Any) -> None:
        """Send bytes without a batch."""
        self._pipe.write(FlightMessage(None, data if isinstance(data, pa.Buffer) else pa.py_buffer(data)))

    def write_with_metadata(self, batch: pa.RecordBatch, data: Any) -> None:
        """Send a batch. It is copied through IPC: the receiver gets buffers of its own."""
        copied = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
        self._pipe.write(FlightMessage(copied, pa.py_buffer(data)))

    def done_writing(self) -> None:
        """Stop writing."""
        self._pipe.close(StopIteration())

    def close(self) -> None:
        """Stop writing, and wait for the handler."""
        self.done_writing()
        self._call.wait_for_end()


class FlightNetwork(Network):
    """The network of the cluster, whose streams are calls between engines."""

    def __init__(self, kernel: SimKernel, host_of: dict[str, str]) -> None:
        super().__init__(kernel, host_of)
        self.scheduler: ThreadScheduler
        self.faults: Faults
        self._servers: dict[int, Listening] = {}
        self._calls: dict[int, Call] = {}
        self._numbers = 0
        self._speed_us = kernel.streams.schedule.choice(SPEEDS_US)

    # --- For engines

    def listen(self, server: Listening) -> int:
        """Make a server known; return its port."""
        self._numbers += 1
        self._servers[self._numbers] = server
        return self._numbers

    def call(self, port: int, command: bytes) -> Call:
        """Open a call. It breaks at once when nobody listens."""
        client, server = self.scheduler.current.process, self._servers.get(port)
        if server is None:
            call = Call(self, client, client)
            call.broke(fl.FlightUnavailableError("Connection refused"))
            return call
        self._numbers += 1
        call = self._calls[self._numbers] = Call(self, client, server.process)
        if self._fails_alone():
            call.broke(fl.FlightUnauthenticatedError("refused before its handler began"))
        elif self._is_cut(call):
            call.answered = False  # it never arrives, also when the link heals: the time limit breaks it
            self._limit(self._numbers)
        else:
            self.scheduler.spawn(lambda: server.serve(call, command), "handler", server.process)
        return call

    def delay_us(self) -> int:
        """Draw the time of a message."""
        return self._between((0, self._speed_us))

    # --- For faults

    def all_streams(self) -> list[int]:
        """List the open calls, oldest first."""
        return [number for number, call in self._calls.items() if not call.over]

    def break_stream(self, stream: int) -> None:
        """Break a call."""
        call = self._calls.pop(stream, None)
        if call is not None:
            call.broke(fl.FlightUnavailableError("Connection reset by peer"))

    def break_all_of(self, process: str) -> None:
        """Break the calls of a process that died, and let nobody call it any more."""
        self._servers = {port: s for port, s in self._servers.items() if s.process != process}
        for number in [n for n, call in self._calls.items() if process in call.ends]:
            self.break_stream(number)

    def set_cut(self, source_host: str, target_host: str, is_cut: bool) -> None:
        """Cut or heal one direction between two hosts. Each stalled call gets a time limit."""
        self.cuts[source_host, target_host] = is_cut
        for number, call in self._calls.items():
            if is_cut:
                self._limit(number)
            call.up.wake()
            call.down.wake()

    def heal(self) -> None:
        """Heal every link."""
        self.cuts.clear()
        for call in self._calls.values():
            call.up.wake()
            call.down.wake()

    def handle(self, event: object, now: float) -> None:
        """Break a call that is still cut at its time limit, or that never arrived."""
        assert isinstance(event, Stalled)
        call = self._calls.get(event.call)
        if call is not None and not call.over and (self._is_cut(call) or not call.answered):
            self.kernel.happened("stream broke after a stall")
            for number in [n for n, other in self._calls.items() if other.ends == call.ends]:
                self.break_stream(number)  # the calls of a client to a server have one connection

    def _fails_alone(self) -> bool:
        """Draw whether a call fails that shares its connection with calls that do not. No handler learns of it."""
        fails = "call" in self.faults.rates and self.faults.verdict("call") is not Verdict.DONE
        if fails:
            self.kernel.happened("call failed alone")
        return fails

    def _is_cut(self, call: Call) -> bool:
        client, server = call.ends
        return self.cut(client, server) or self.cut(server, client)

    def _limit(self, number: int) -> None:
        self.kernel.at(self._between(BREAK_US), "net", Stalled(number))


class SimFlightServer:
    """Takes the place of the transport's ``FlightServer``. ``network`` is the one of the run."""

    network: FlightNetwork

    def __init__(self, _endpoint: object, handle: Handle) -> None:
        self._handle = handle
        self.process = self.network.scheduler.current.process
        self.port = self.network.listen(self)

    def serve(self, call: Call, command: bytes) -> None:
        """Handle one call, on a thread of this server's process."""
        try:
            self._handle(call, command, FlightReader(call.up, call), FlightWriter(call.down, call))
        except fl.FlightError as error:
            call.down.close(error)
            call.end(error)
        else:
            call.down.close(StopIteration())
            call.end()

    def shutdown(self) -> None:
        """Take no more calls."""
        self.network.break_all_of(self.process)


class Client:
    """What the twin of ``dial`` returns."""

    def __init__(self, port: int) -> None:
        self._port = port

    def do_exchange(self, descriptor: Any, _options: object) -> tuple[FlightWriter, FlightReader]:
        """Open a call."""
        call = SimFlightServer.network.call(self._port, descriptor.command)
        return FlightWriter(call.up, call), FlightReader(call.down, call)


def dial(location: str, _trust: object) -> Client:
    """Twin of ``transport.stream.dial``."""
    return Client(int(location.rsplit(":", 1)[1]))
