"""What makes a peer one of this job: a certificate of the job's own authority, and a signed token.

Every worker of a job holds the same certificate, so it says which job a peer belongs to and no
more. Who it is within the job is said by the handshake, and the token signs that: job, attempt,
sender's incarnation and receiver. Neither helps against a worker of the same job that lies.

Certificates are renewed while a job runs. So whoever dials or listens for long holds a
:class:`TrustSource` and asks it for the trust of now.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Any, Protocol

SECRET_BYTES_MIN = 32
TOKEN_HEADER = "x-penstock-token"
_END = b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True)
class Credentials:
    """PEM texts of the job's authorities, certificate and key; ``host`` is the name to verify.

    ``ca`` may hold several authorities: each of them is believed. Nothing of it is shown by
    ``repr``, so that no log can hold it.
    """

    host: str
    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def server_options(self) -> dict[str, Any]:
        """Return what makes a Flight server show its certificate and ask for one."""
        return {
            "tls_certificates": [(self.certificate, self.key)],
            "verify_client": True,
            "root_certificates": self.ca,
        }

    def client_options(self) -> dict[str, Any]:
        """Return what makes a Flight client show its certificate and verify the other."""
        return {
            "tls_root_certs": self.ca,
            "cert_chain": self.certificate,
            "private_key": self.key,
            "override_hostname": self.host,
        }

    def authorities(self) -> frozenset[bytes]:
        """Return the authorities that are believed, one by one."""
        return frozenset(part.strip() for part in self.ca.split(_END) if part.strip())


def signed(secret: bytes, *parts: bytes) -> str:
    """Sign ``parts``: HMAC-SHA256 in hex, over each with its length, so that none can move."""
    sized = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.new(secret, sized, hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class RunSecret:
    """What workers of one machine hold: a secret of their run, and no certificates.

    Anybody may connect to a loopback address. So tokens keep the other users of the machine out.
    """

    secret: bytes = field(repr=False)

    def server_options(self) -> dict[str, Any]:
        """Return nothing: there is no TLS."""
        return {}

    def client_options(self) -> dict[str, Any]:
        """Return nothing: there is no TLS."""
        return {}

    def token(self, *parts: bytes) -> str:
        """Show that the secret is held, and sign ``parts`` as :meth:`Trust.token` does."""
        return signed(self.secret) + signed(self.secret, *parts)

    def admits(self, token: str) -> bool:
        """Say whether the caller holds the secret, before it is known what it has to say."""
        held = signed(self.secret)
        return hmac.compare_digest(token[: len(held)].encode(), held.encode())

    def verifies(self, token: str, *parts: bytes) -> bool:
        """Say whether ``token`` signs exactly ``parts``; takes the same time either way."""
        return hmac.compare_digest(token.encode(), self.token(*parts).encode())

    @property
    def now(self) -> "RunSecret":
        """Return itself: it lasts as long as the run."""
        return self


@dataclass(frozen=True, slots=True)
class Trust(Credentials):
    """What a worker holds: ``secret`` signs tokens, and is not for senders of pushed input."""

    secret: bytes = field(repr=False)

    def token(self, *parts: bytes) -> str:
        """Sign ``parts``: HMAC-SHA256 in hex, over each with its length, so that none can move."""
        return signed(self.secret, *parts)

    def admits(self, token: str) -> bool:
        """Say yes: the caller has shown a certificate of the job."""
        return True

    def verifies(self, token: str, *parts: bytes) -> bool:
        """Say whether ``token`` signs exactly ``parts``; takes the same time either way."""
        return hmac.compare_digest(token.encode(), self.token(*parts).encode())

    def overlaps(self, other: "Trust") -> bool:
        """Say whether holders of either hear each other: a common authority and the same secret.

        That both certificates are of a common authority is up to who made them.
        """
        return self.secret == other.secret and bool(self.authorities() & other.authorities())

    @property
    def now(self) -> "Trust":
        """Return itself: as a source, one that never changes."""
        return self


class TrustSource(Protocol):
    """Where the trust of now comes from. Any thread may ask."""

    @property
    def now(self) -> Trust:
        """Return what is to be shown and believed from now on; the same object while it lasts."""
        ...


Shown = Trust | RunSecret  # what workers show each other


def scheme(shown: Credentials | RunSecret | None) -> str:
    """Return the scheme of a Flight location, to listen on or to dial."""
    return "grpc+tls" if isinstance(shown, Credentials) else "grpc"


@dataclass(frozen=True, slots=True)
class IngestPlace:
    """Where a worker hears the senders of pushed input; port 0: any free one.

    ``host`` empty: at a Unix socket in the folder where the worker announces itself, which only
    its own user may enter. Else ``trust`` None means that whoever can connect may push.
    """

    host: str = ""
    port: int = 0
    trust: TrustSource | None = None

    def credentials(self) -> Credentials | None:
        """Return what is to be shown and believed from now on."""
        return None if self.trust is None else self.trust.now


OF_ONE_USER = IngestPlace()
