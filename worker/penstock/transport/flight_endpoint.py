"""Where a worker's Flight server listens, and how it authenticates callers.

With trust, a caller passes three checks: TLS, where both sides have a certificate of the job's own
authority; a token in the headers, checked before a byte of the call is read; and the token's
signature over the handshake. Workers on one machine use the last two. The token is checked first
because Flight itself reads a first message of any size.
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
