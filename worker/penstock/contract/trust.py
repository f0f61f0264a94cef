"""What makes a peer one of this job: a certificate of the job's own authority, and a signed token.

Every worker of a job holds the same certificate, so it says which job a peer belongs to and no
more. Who it is within the job is said by the handshake, and the token signs that: job, attempt,
sender's incarnation and receiver. Neither helps against a worker of the same job that lies.
"""

import hashlib
import hmac
from dataclasses import dataclass, field

SECRET_BYTES_MIN = 32
TOKEN_HEADER = "x-penstock-token"


@dataclass(frozen=True, slots=True)
class Trust:
    """PEM texts of the job's authority, certificate and key; ``host`` is the name to verify.

    ``secret`` signs tokens. Nothing of it is shown by ``repr``, so that no log can hold it.
    """

    host: str
    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    secret: bytes = field(repr=False)

    def token(self, *parts: bytes) -> str:
        """Sign ``parts``: HMAC-SHA256 in hex, over each with its length, so that none can move."""
        sized = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.new(self.secret, sized, hashlib.sha256).hexdigest()

    def verifies(self, token: str, *parts: bytes) -> bool:
        """Say whether ``token`` signs exactly ``parts``; takes the same time either way."""
        return hmac.compare_digest(token.encode(), self.token(*parts).encode())
