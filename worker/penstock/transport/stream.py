"""Flight streams between workers: where a server listens, whom it accepts, and the writing end.

With trust, a caller passes three checks: TLS, where both sides have a certificate of the job's own
authority; a token in the headers, checked before a byte of the call is read; and the token's
signature over the handshake. Workers on one machine use the last two. The token is checked first
because Flight itself reads a first message of any size.

A stream carries one channel. Its reverse direction is unused: see :mod:`peer_link`.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from penstock.base.addresses import join_address
from penstock.base.threads import perf_counter
from penstock.base.values import replace
from penstock.contract.settings import CompressionSettings
from penstock.contract.trust import TOKEN_HEADER, RunSecret, Shown, TrustSource, scheme
from penstock.model.wire import DataHead, Hello, encode_data, encode_hello
from penstock.transport.batches import Packing, can_pack, conform, pack

TOKEN_MIDDLEWARE = "token"
# A connection of its own for every attempt: one that hangs cannot hold up the next.
CLIENT_OPTIONS = [("grpc.use_local_subchannel_pool", 1)]

STREAM_ERRORS = (fl.FlightError, pa.ArrowException, OSError)
_NOISE = (" gRPC client debug context:", " Detail: ", " Client context:")


@dataclass(frozen=True, slots=True)
class FlightEndpoint:
    """Where to listen. ``advertised`` is the address that peers dial (None: ``host``).

    Port 0 means any free port. ``trust`` is the trust of a job, or the secret of a run, which is
    for the loopback address only. None: every caller that can connect is accepted.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertised: str | None = None
    trust: TrustSource | RunSecret | None = None

    def listens(self) -> str:
        """Return the location that the server listens on."""
        return f"{scheme(self.trust_now())}://{join_address(self.host, self.port)}"

    def location(self, port: int) -> str:
        """Return the location that peers dial; ``port`` is the port that the server got."""
        address = join_address(self.advertised or self.host, port)
        return f"{scheme(self.trust_now())}://{address}"

    def server_options(self) -> dict[str, Any]:
        """Return the options of a server that is made now: its certificates and the token check."""
        trust = self.trust_now()
        if trust is None:
            return {}
        tokens = {"middleware": {TOKEN_MIDDLEWARE: _TokenFactory(trust)}}
        return trust.server_options() | tokens

    def trust_now(self) -> Shown | None:
        """Return the newest credentials: what to present, and what to accept."""
        return None if self.trust is None else self.trust.now


LOOPBACK = FlightEndpoint()


def dial(address: str, trust: Shown | None) -> Any:
    """Return a client for a peer's location. It connects at its first call."""
    shown = {} if trust is None else trust.client_options()
    return fl.FlightClient(address, generic_options=CLIENT_OPTIONS, **shown)


def call_options(trust: Shown | None, hello: bytes) -> Any:
    """Return the options of a call whose handshake is ``hello``: its signature, if there is trust."""
    if trust is None:
        return fl.FlightCallOptions()
    return fl.FlightCallOptions(headers=[(TOKEN_HEADER.encode(), trust.token(hello).encode())])


def check_call(trust: Shown | None, context: Any, hello: bytes) -> None:
    """Refuse a call whose token does not sign its handshake. Raises FlightUnauthenticatedError."""
    if trust is None:
        return
    token: str = context.get_middleware(TOKEN_MIDDLEWARE).token
    if not trust.verifies(token, hello):
        raise fl.FlightUnauthenticatedError(
            "refused: the token does not sign this handshake: another job's, or an altered one"
        )


class _Token(fl.ServerMiddleware):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self.token = token


class _TokenFactory(fl.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuses a call without a token before any of it is read."""

    def __init__(self, trust: Shown) -> None:
        super().__init__()
        self._trust = trust

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> _Token:
        """Keep the token for the handler, which checks it against the handshake."""
        given = headers.get(TOKEN_HEADER, [])
        if len(given) != 1 or not self._trust.admits(str(given[0])):
            raise fl.FlightUnauthenticatedError("refused: a call without a worker's token")
        return _Token(str(given[0]))


def describe(error: BaseException) -> str:
    """Return the text of a stream's error in one line, without the contexts that gRPC appends."""
    text = " ".join(str(error).split())
    for noise in _NOISE:
        text = text.split(noise, 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class OutStream:
    """One DoExchange call. Only the sender thread calls it, except :meth:`cancel`."""

    def __init__(
        self,
        client: Any,
        hello: Hello,
        schema: pa.Schema,
        compression: CompressionSettings,
        *,
        trust: Shown | None = None,
    ) -> None:
        self._client = client
        self._hello = hello
        self._schema = schema
        self._packing = Packing(compression) if can_pack(compression, schema) else None
        self._trust = trust
        self._writer: Any = None
        self._reader: Any = None
        self._begun = False
        self._cancelled = False

    def open(self) -> None:
        """Begin the call with the handshake. Raises FlightError when the peer cannot be reached."""
        hello = encode_hello(self._hello)
        descriptor = fl.FlightDescriptor.for_command(hello)
        options = call_options(self._trust, hello)
        self._writer, self._reader = self._client.do_exchange(descriptor, options)
        if self._cancelled:
            self._reader.cancel()

    def send_batch(self, sequence: int, head: DataHead, batch: pa.RecordBatch, *, waited_s: float = 0.0) -> None:
        """Write a batch, packed where that is faster. May block.

        ``waited_s`` is how long the batch has waited for credit.
        """
        rows = conform(batch, self._schema)
        packs = self._packing is not None and self._packing.packs(rows, head.charge)
        start = perf_counter()
        if not (packs and self._write_packed(sequence, head, rows)):
            self._write_plain(rows, encode_data(sequence, head))
        if self._packing is not None:
            self._packing.sent(perf_counter() - start + waited_s)

    def _write_packed(self, sequence: int, head: DataHead, rows: pa.RecordBatch) -> bool:
        """Write a batch packed; return False and write nothing when packing makes it larger."""
        metadata = encode_data(sequence, replace(head, packed=True))
        message = pack(rows, self._schema, metadata)
        if message.size > head.charge:
            return False
        self._writer.write_metadata(message)
        return True

    def _write_plain(self, rows: pa.RecordBatch, metadata: bytes) -> None:
        if not self._begun:
            self._begun = True
            self._writer.begin(self._schema)
        self._writer.write_with_metadata(rows, metadata)

    def send_control(self, metadata: bytes) -> None:
        """Write an element without a body. May block."""
        self._writer.write_metadata(metadata)

    def cancel(self) -> None:
        """End a blocked write, from any thread. Later writes fail."""
        self._cancelled = True
        if self._reader is not None:
            self._reader.cancel()

    def close(self) -> None:
        """End the call and, unless it was cancelled, wait for the peer's handler.

        Raises FlightError.
        """
        try:
            self._writer.close()
        except STREAM_ERRORS:
            if not self._cancelled:  # a cancelled call raises its error again when it is closed
                raise
