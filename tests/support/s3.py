"""A store of a real server of the S3 API, as a program sees it that knows nothing of Penstock.

It signs its requests itself and has no threads, so processes may be forked from one that has used it.
"""

import hashlib
import hmac
import time
from functools import reduce
from http.client import HTTPConnection
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

from tools.servers.kafka import new_name

USER, SECRET = "tests-user", "a-secret-of-the-s3-tests"
USER_VARIABLE, SECRET_VARIABLE = "PENSTOCK_TESTS_S3_USER", "PENSTOCK_TESTS_S3_SECRET"  # no names that clients read
WITHIN_S = 60.0
SIGNED = "host;x-amz-content-sha256;x-amz-date"


class Refused(Exception):
    """The store has answered with an error; its text has the status."""


class S3:
    """Makes buckets, writes and reads."""

    def __init__(self, endpoint: str, secret: str = SECRET) -> None:
        """Speak to the server at ``endpoint``."""
        self.endpoint = endpoint
        self._secret = secret

    def bucket(self) -> str:
        """Make a bucket of a new name, and return the name."""
        name = new_name("bucket")
        self._ask("PUT", name)
        return name

    def write(self, bucket: str, name: str, data: bytes) -> None:
        """Write an object."""
        self._ask("PUT", bucket, name, data=data)

    def read(self, bucket: str, name: str) -> bytes:
        """Return the content of an object."""
        return self._ask("GET", bucket, name)

    def delete(self, bucket: str, name: str) -> None:
        """Remove an object."""
        self._ask("DELETE", bucket, name)

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the names of all objects that begin with ``prefix``, sorted."""
        found, after = list[str](), ""
        while True:
            query = {"list-type": "2", "prefix": prefix, "start-after": after}
            root = ElementTree.fromstring(self._ask("GET", bucket, query=query))
            found += [key.text or "" for key in root.iterfind("{*}Contents/{*}Key")]
            if root.findtext("{*}IsTruncated") != "true":
                return sorted(found)
            after = found[-1]

    def _ask(
        self, method: str, bucket: str, name: str = "", *, query: dict[str, str] | None = None, data: bytes = b""
    ) -> bytes:
        place, host = quote(f"/{bucket}/{name}" if name else f"/{bucket}"), self.endpoint.removeprefix("http://")
        words = urlencode(sorted((query or {}).items()), quote_via=quote, safe="")
        headers = {
            "host": host,
            "x-amz-content-sha256": hashlib.sha256(data).hexdigest(),
            "x-amz-date": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()),
        }
        headers["authorization"] = self._signature(method, place, words, headers)
        connection = HTTPConnection(host, timeout=WITHIN_S)
        try:
            connection.request(method, f"{place}?{words}" if words else place, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Refused(f"{answer.status} {text.decode(errors='replace')}")
        return text

    def _signature(self, method: str, place: str, words: str, headers: dict[str, str]) -> str:
        """Return the header of AWS's signature, version 4."""
        day = headers["x-amz-date"][:8]
        scope = [day, "us-east-1", "s3", "aws4_request"]
        signed = "".join(f"{name}:{headers[name]}\n" for name in SIGNED.split(";"))
        request = "\n".join([method, place, words, signed, SIGNED, headers["x-amz-content-sha256"]])
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], "/".join(scope), digest])
        key = reduce(_hmac, scope, f"AWS4{self._secret}".encode())
        return (
            f"AWS4-HMAC-SHA256 Credential={USER}/{'/'.join(scope)}, SignedHeaders={SIGNED},"
            f" Signature={_hmac(key, text).hex()}"
        )


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
