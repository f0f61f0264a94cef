"""Calls of one job's processes over gRPC: strict JSON, bounded messages, a deadline each.

Generic handlers with the codec of ``contract``: no generated code, and an unknown field is an
error before its handler runs. Every call carries the token of its run, so that no other process of the
machine can speak for a worker. Errors keep their class on the way back.

The methods of keepers and of the supervisor are a table each:

    keeper      deliver     a report to its leader, a command to its member
    supervisor  announce    which lives are up on a worker
                status, rescale, partition, rebalance, ask, end     what the command line asks for
"""

import hmac
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc

from penstock.base.addresses import join_address
from penstock.base.errors import ConfigError, PeerError, StateError, StorageError
from penstock.base.limits import (
    CONTROL_CALL_TIMEOUT_S,
    CONTROL_MESSAGE_BYTES_MAX,
    KEEPALIVE_S,
    KEEPALIVE_TIMEOUT_S,
)
from penstock.contract.codec import Message, decode, encode
from penstock.contract.control_messages import Envelope
from penstock.contract.schemes import Choices
from penstock.contract.status import JobStatus, RequestAnswer, WorkerReport
from penstock.contract.trust import TOKEN_HEADER, Trust, TrustSource
from penstock.ports import SwapConflict, SwapUnknown

Request = TypeVar("Request")
Reply = TypeVar("Reply")

SERVICE = "penstock"
HANDLER_THREADS = 8
DIAL_TIMEOUT_S = 0.5
SHUTDOWN_GRACE_S = 0.2
OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", CONTROL_MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", CONTROL_MESSAGE_BYTES_MAX),
    ("grpc.enable_http_proxy", 0),  # a proxy for web pages is no way to a neighbour
    ("grpc.so_reuseport", 0),  # two servers on one port would share its calls silently
    ("grpc.http2.bdp_probe", 0),  # a ping for each message would size windows for large ones
    # A connection may be half-open: the other side is gone from it and nobody said so. Calls would wait on
    # it one after the other, and gRPC dials no other one. So each side asks while a call is open.
    ("grpc.keepalive_time_ms", int(KEEPALIVE_S * 1000)),
    ("grpc.keepalive_timeout_ms", int(KEEPALIVE_TIMEOUT_S * 1000)),
    ("grpc.http2.ping_timeout_ms", int(KEEPALIVE_TIMEOUT_S * 1000)),  # of the pings that measure the link
    ("grpc.http2.max_ping_strikes", 0),  # or the server would end a connection that is asked so often
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
# UNKNOWN is none of them: gRPC's own word for a handler that failed in an unexpected way, which is no answer.
_CODES: tuple[tuple[type[Exception], grpc.StatusCode], ...] = (
    (SwapConflict, grpc.StatusCode.ABORTED),
    (SwapUnknown, grpc.StatusCode.OUT_OF_RANGE),
    (PeerError, grpc.StatusCode.INVALID_ARGUMENT),
    (ConfigError, grpc.StatusCode.FAILED_PRECONDITION),
    (StateError, grpc.StatusCode.DATA_LOSS),
    (StorageError, grpc.StatusCode.INTERNAL),
)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Reply]):
    """One kind of call: what goes there and what comes back. Both are dataclasses."""

    name: str
    request: type[Request]
    reply: type[Reply]


class Nothing(Message, tag="Nothing"):
    """The reply of a call that has nothing to say, or a question without arguments."""


class Unreachable(Exception):
    """No answer: the call may have been carried out or not."""


Handler = Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a server listens, and what callers have to show.

    Port 0: one that the system chooses. ``advertised`` is the host that others dial, ``host``
    when None. ``trust``: TLS on both sides with certificates of one job, those of now for each
    connection; without it the loopback address and the token have to do.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertised: str | None = None
    trust: TrustSource | None = None


LOOPBACK = ListenAddress()


class Server:
    """Serves methods at an address; ``address`` is what others dial."""

    def __init__(
        self,
        handlers: Mapping[Method[Any, Any], Handler],
        token: str,
        listen: ListenAddress = LOOPBACK,
        *,
        waiting: int = 0,
    ) -> None:
        """Start to listen. Handlers run on a few threads and must not block for long.

        ``waiting``: threads on top, for calls that wait in their handlers: those of callers that
        have died wait, too.
        """
        threads = ThreadPoolExecutor(HANDLER_THREADS + waiting, thread_name_prefix="rpc")
        self._server = grpc.server(threads, options=OPTIONS)
        table: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            method.name: grpc.unary_unary_rpc_method_handler(_behaviour(method, handler, token))
            for method, handler in handlers.items()
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, table),))
        port = self._open(listen)
        self.address = join_address(listen.advertised or listen.host, port)
        self._server.start()

    def _open(self, listen: ListenAddress) -> int:
        wanted = join_address(listen.host, listen.port)
        try:
            if listen.trust is None:
                port = self._server.add_insecure_port(wanted)
            else:
                port = self._server.add_secure_port(wanted, _server_credentials(listen.trust))
        except RuntimeError as error:  # newer gRPC raises where older ones returned 0
            raise ConfigError(_not_here(wanted)) from error
        if port == 0:
            raise ConfigError(_not_here(wanted))
        return port

    def close(self) -> None:
        """Refuse new calls, give running ones a moment, and free the port. Idempotent."""
        self._server.stop(SHUTDOWN_GRACE_S).wait()


def _behaviour(
    method: Method[Any, Any], handler: Handler, token: str
) -> Callable[[bytes, grpc.ServicerContext], bytes]:
    def answer(data: bytes, context: grpc.ServicerContext) -> bytes:
        given = dict(context.invocation_metadata()).get(TOKEN_HEADER, "")
        if not hmac.compare_digest(str(given), token):
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "this is another run's server")
        try:
            return encode(handler(decode(method.request, data)))
        except tuple(kind for kind, _ in _CODES) as error:
            code = next(code for kind, code in _CODES if isinstance(error, kind))
            context.abort(code, str(error))
            raise AssertionError("abort always raises") from error

    return answer


class Client:
    """Calls to one address. Connects when needed, and again after a break.

    A channel shows the certificate that it was made with for ever. So other certificates make
    another channel; calls that wait on the one before go on.
    """

    def __init__(self, address: str, token: str, trust: TrustSource | None = None) -> None:
        """Remember the address; nothing is dialled before the first call."""
        self.address = address
        self._token = ((TOKEN_HEADER, token),)
        self._trust = trust
        self._lock = threading.Lock()
        self._shown = None if trust is None else trust.now
        self._channels = [_channel(address, self._shown)]

    def call(
        self,
        method: Method[Request, Reply],
        request: Request,
        timeout_s: float = CONTROL_CALL_TIMEOUT_S,
    ) -> Reply:
        """Ask and wait for the answer.

        Raises Unreachable when there is none, also when the handler failed in an unexpected way,
        PeerError when the other side refused the message, and the error that the handler raised.
        """
        remote: grpc.UnaryUnaryMultiCallable[bytes, bytes] = self._channel().unary_unary(f"/{SERVICE}/{method.name}")
        try:
            data = remote(encode(request), timeout=timeout_s, metadata=self._token)
        except grpc.RpcError as error:
            raise _translate(error, self.address) from error
        reply: Reply = decode(method.reply, data)
        return reply

    def close(self) -> None:
        """End the connection; calls that wait end as Unreachable."""
        with self._lock:
            for channel in self._channels:
                channel.close()

    def _channel(self) -> grpc.Channel:
        now = None if self._trust is None else self._trust.now
        with self._lock:
            if now is not self._shown:
                self._shown = now
                self._channels.append(_channel(self.address, now))
            return self._channels[-1]


def _channel(address: str, trust: Trust | None) -> grpc.Channel:
    if trust is None:
        return grpc.insecure_channel(address, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(trust.ca, trust.key, trust.certificate)
    named = (*OPTIONS, ("grpc.ssl_target_name_override", trust.host))
    return grpc.secure_channel(address, credentials, options=named)


def _server_credentials(source: TrustSource) -> grpc.ServerCredentials:
    """Return credentials of which each new connection gets those of now."""
    served = [source.now]

    def changed() -> grpc.ServerCertificateConfiguration | None:
        now = source.now
        if now is served[0]:
            return None
        served[0] = now
        return _certificates(now)

    return grpc.dynamic_ssl_server_credentials(
        _certificates(served[0]),
        changed,  # type: ignore[arg-type]  # None means "as before", which the stubs do not know
        require_client_authentication=True,
    )


def _certificates(trust: Trust) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(trust.key, trust.certificate)], root_certificates=trust.ca)


def _not_here(address: str) -> str:
    return f"cannot listen on {address}: is it a free port of an address of this machine?"


def _translate(error: grpc.RpcError, address: str) -> Exception:
    code, details = error.code(), error.details()
    for kind, known in _CODES:
        if code is known:
            return kind(details)
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return PeerError(f"{address}: {details}")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return PeerError(f"{address}: another program listens there, or another version: {details}")
    return Unreachable(f"{address}: {code.name.lower().replace('_', ' ')}: {details}")


def refuses(address: str) -> bool:
    """Dial once and say whether the connection was refused, because no process listens there.

    A time limit that passes is no refusal; a stopped process or a cut network looks like that.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), DIAL_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


class Rescale(Message, tag="Rescale"):
    """Ask for another number of workers."""

    workers: int


class Partition(Message, tag="Partition"):
    """Ask for other schemes of some steps."""

    choices: Choices


class Ask(Message, tag="Ask"):
    """A request of ``Desired``: ``checkpoint``, ``savepoint`` (its name) or ``stop``."""

    kind: str
    argument: str | None = None


class AnswerOf(Message, tag="AnswerOf"):
    """What became of the request of this id."""

    id: str


class End(Message, tag="End"):
    """End all processes now, without a last checkpoint."""


DELIVER = Method("deliver", Envelope, Nothing)
ANNOUNCE = Method("announce", WorkerReport, Nothing)
STATUS = Method("status", Nothing, JobStatus)
RESCALE = Method("rescale", Rescale, RequestAnswer)
PARTITION = Method("partition", Partition, RequestAnswer)
REBALANCE = Method("rebalance", Nothing, RequestAnswer)
ASK = Method("ask", Ask, RequestAnswer)
ANSWER = Method("answer", AnswerOf, RequestAnswer)
END = Method("end", End, Nothing)
