"""Where a worker's Flight server listens, and what a caller has to show there.

With trust, three things stand between a stranger and a queue: TLS with a certificate of the job's
own authority on both sides, a token in the call's headers before a byte of it is read, and the
token's signature over the handshake that it came with. Workers of one machine have the last two:
Flight itself reads a first message of any size.
"""

from dataclasses import dataclass
from typing import Any

import pyarrow.flight as fl

from penstock.base.addresses import join_address
from penstock.contract.trust import TOKEN_HEADER, RunSecret, Shown, TrustSource, scheme

TOKEN_MIDDLEWARE = "token"
# A connection of its own for every attempt: one that hangs cannot hold up the next.
CLIENT_OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


@dataclass(frozen=True, slots=True)
class FlightEndpoint:
    """``advertised`` is the address that peers dial, ``host`` when None; port 0: any free one.

    ``trust``: that of a job, or the secret of a run, which is for the loopback address only. None:
    whoever can connect may speak.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertised: str | None = None
    trust: TrustSource | RunSecret | None = None

    def listens(self) -> str:
        """Return the location for the server."""
        return f"{scheme(self.trust_now())}://{join_address(self.host, self.port)}"

    def location(self, port: int) -> str:
        """Return the location that peers dial; ``port`` is the one that was found."""
        address = join_address(self.advertised or self.host, port)
        return f"{scheme(self.trust_now())}://{address}"

    def server_options(self) -> dict[str, Any]:
        """Return what a server that is made now asks of callers."""
        trust = self.trust_now()
        if trust is None:
            return {}
        tokens = {"middleware": {TOKEN_MIDDLEWARE: _TokenFactory(trust)}}
        return trust.server_options() | tokens

    def trust_now(self) -> Shown | None:
        """Return what is to be shown and believed from now on."""
        return None if self.trust is None else self.trust.now


LOOPBACK = FlightEndpoint()


def dial(address: str, trust: Shown | None) -> Any:
    """Return a client for a peer's location; connects with its first call."""
    shown = {} if trust is None else trust.client_options()
    return fl.FlightClient(address, generic_options=CLIENT_OPTIONS, **shown)


def call_options(trust: Shown | None, hello: bytes) -> Any:
    """Return the options of a call that opens with ``hello``: its signature, where there is one."""
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
    """Refuses a call without a token before anything of it is read."""

    def __init__(self, trust: Shown) -> None:
        super().__init__()
        self._trust = trust

    def start_call(self, info: Any, headers: dict[str, list[Any]]) -> _Token:
        """Keep the token for the handler, which knows the handshake."""
        given = headers.get(TOKEN_HEADER, [])
        if len(given) != 1 or not self._trust.admits(str(given[0])):
            raise fl.FlightUnauthenticatedError("refused: a call without a worker's token")
        return _Token(str(given[0]))
