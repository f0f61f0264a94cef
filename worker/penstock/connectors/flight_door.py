"""A Flight server for pushed rows that sees each message before Arrow does.

Arrow's own Flight server decodes a message before its handler is called: it takes whatever memory
the message claims, and has no limit for one. So this one is gRPC, which has; messages stay bytes
until :mod:`penstock.connectors.arrivals` has read their sizes. Clients are those of Arrow Flight.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import grpc

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.connectors.flight_data import EXCHANGE, SERVICE, FlightData, decode, encode_metadata
from penstock.contract.trust import Credentials

Serve = Callable[[Iterator[FlightData]], Iterator[bytes]]
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", limits.INGEST_MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),  # two servers on one port would share its calls silently
)


class FlightDoor:
    """Listens as soon as it is made; only DoExchange is served, a thread for each stream."""

    def __init__(
        self,
        address: str,
        credentials: Callable[[], Credentials | None],
        serve: Serve,
        streams_max: int,
    ) -> None:
        """Hear senders at ``address``, ``HOST:PORT`` or ``unix:PATH``; ``port`` is what was found.

        ``serve`` gets the messages of a stream and gives the metadata of the answers, on the
        stream's own thread. ``credentials`` are asked for with every dial; None: no TLS. Streams
        beyond ``streams_max`` are refused. Raises ConfigError when the address is taken.
        """
        self._serve = serve
        self._server = grpc.server(
            _DaemonThreads(), options=OPTIONS, maximum_concurrent_rpcs=streams_max
        )
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(
            self._exchange
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {EXCHANGE: handler}),)
        )
        try:
            self.port = self._open(address, credentials)
        except RuntimeError as error:
            raise ConfigError(
                f"ingest source: cannot listen on {address}; in a cluster a job has one"
            ) from error
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

        asked = grpc.dynamic_ssl_server_credentials(
            _configuration(shown), fetch, require_client_authentication=True
        )
        return self._server.add_secure_port(address, asked)

    def _exchange(
        self, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        for answer in self._serve(_messages(requests, context)):
            yield encode_metadata(answer)
        # A sender that still writes when its stream ends would not read the last answer.
        with _at_most(limits.INGEST_LINGER_S, context), suppress(grpc.RpcError):
            for _ in requests:
                pass


def _configuration(shown: Credentials) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(shown.key, shown.certificate)], shown.ca)


def _messages(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[FlightData]:
    """Yield messages until the sender ends or is gone; the first one must come soon.

    Raises PeerError on bytes that are no message of Flight.
    """
    with suppress(grpc.RpcError):  # the sender is gone; it dials anew and hears where to go on
        with _at_most(limits.INGEST_HELLO_TIMEOUT_S, context):
            first = next(requests, None)
        if first is not None:
            yield decode(first)
        for message in requests:
            yield decode(message)


@contextmanager
def _at_most(seconds: float, context: grpc.ServicerContext) -> Iterator[None]:
    """Cancel a stream that stays inside for longer."""
    timer = threading.Timer(seconds, context.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _DaemonThreads(ThreadPoolExecutor):
    """Runs each call on a thread of its own, which holds up no end of the process.

    A pool's own threads, of which this starts none, are waited for when the interpreter ends; and a
    stream lasts as long as its sender.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # gRPC asks the future for it, whatever it is
                future.set_exception(error)

        threading.Thread(target=run, name="ingest", daemon=True).start()
        return future
