"""A Flight server for pushed rows that reads the size of each message before Arrow decodes it.

Arrow's own Flight server decodes a message before it calls its handler. It allocates whatever the
message claims, and cannot limit the size of a message. So this server is plain gRPC, which can.
Messages stay bytes until :mod:`penstock.connectors.arrivals` has checked their sizes. Clients are
ordinary clients of Arrow Flight.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.threads import Future, Thread, ThreadPoolExecutor, Timer
from penstock.connectors.flight_data import EXCHANGE, SERVICE, FlightData, decode, encode_metadata
from penstock.contract.trust import Credentials

Serve = Callable[[Iterator[FlightData]], Iterator[bytes]]
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", limits.INGEST_MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),  # two servers on one port would share its calls silently
)


class IngestServer:
    """Listens as soon as it is made. It serves DoExchange only, with a thread for each stream."""

    def __init__(
        self,
        address: str,
        credentials: Callable[[], Credentials | None],
        serve: Serve,
        streams_max: int,
    ) -> None:
        """Listen at ``address``, ``HOST:PORT`` or ``unix:PATH``; ``port`` is the port it got.

        ``serve`` gets the messages of a stream and gives the metadata of the answers; it runs on
        the stream's own thread. ``credentials()`` is called for every connection; None means no
        TLS. Streams beyond ``streams_max`` are refused. Raises ConfigError when the address is in
        use.
        """
        self._serve = serve
        self._server = grpc.server(_DaemonThreads(), options=OPTIONS, maximum_concurrent_rpcs=streams_max)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._exchange)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {EXCHANGE: handler}),))
        try:
            self.port = self._open(address, credentials)
        except RuntimeError as error:
            raise ConfigError(f"ingest source: cannot listen on {address}; in a cluster a job has one") from error
        self._server.start()

    def close(self) -> None:
        """End all streams and stop listening; returns at once. Idempotent."""
        self._server.stop(None)

    def _open(self, address: str, credentials: Callable[[], Credentials | None]) -> int:
        shown = credentials()
        if shown is None:
            return self._server.add_insecure_port(address)

        def fetch() -> grpc.ServerCertificateConfiguration:
            now = credentials()
            assert now is not None, "a source of certificates keeps having some"
            return _configuration(now)

        asked = grpc.dynamic_ssl_server_credentials(_configuration(shown), fetch, require_client_authentication=True)
        return self._server.add_secure_port(address, asked)

    def _exchange(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for answer in self._serve(_messages(requests, context)):
            yield encode_metadata(answer)
        # Wait for the sender's end: it reads the last answer only when it has stopped writing.
        with _time_limit(limits.INGEST_LINGER_S, context), suppress(grpc.RpcError):
            for _ in requests:
                pass


def _configuration(shown: Credentials) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(shown.key, shown.certificate)], shown.ca)


def _messages(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[FlightData]:
    """Yield messages until the sender ends or is gone. The first one must come soon.

    Raises PeerError on bytes that are no Flight message.
    """
    with suppress(grpc.RpcError):  # the sender is gone; it will reconnect and learn its offset
        with _time_limit(limits.INGEST_HELLO_TIMEOUT_S, context):
            first = next(requests, None)
        if first is not None:
            yield decode(first)
        for message in requests:
            yield decode(message)


@contextmanager
def _time_limit(seconds: float, context: grpc.ServicerContext) -> Iterator[None]:
    """Cancel the stream when the ``with`` block takes longer."""
    timer = Timer(seconds, context.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _DaemonThreads(ThreadPoolExecutor):
    """Runs each call on a daemon thread of its own, which does not delay the end of the process.

    At its end the interpreter waits for the threads of an ordinary pool, and a stream lasts as long
    as its sender does.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # gRPC reads any error from the future
                future.set_exception(error)

        Thread(target=run, name="ingest", daemon=True).start()
        return future
