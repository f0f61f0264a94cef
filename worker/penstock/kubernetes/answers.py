"""What an API server's answers mean: the half that workers and the operator share.

A client sends a request once and gives the answer here. An answer is an object, or an
:class:`ApiError` that says whether the server has changed anything.
"""

from typing import Any

from penstock.base.errors import PeerError, StorageError
from penstock.base.limits import API_ANSWER_BYTES_MAX, API_DEPTH_MAX
from penstock.contract.codec import parsed

APPLY_PATCH = "application/apply-patch+yaml"
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
RETRY_AFTER_MAX_S = 120.0  # used when a server asks for a longer wait
ASKS_TO_WAIT = frozenset({429, 503})
UNANSWERED = 0  # the code of a request without an answer
TEXT_CHARS_MAX = 500

# A server that answers so has not carried out the request.
_NOT_DONE = frozenset({400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429})

Object = dict[str, Any]


class ApiError(StorageError):
    """The API server refused, or gave no answer that can be read (``code`` 0).

    ``reason`` is the server's word. ``retry_after_s`` is the wait that the server asks for, 0 when
    it asks for none.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        """Keep the answer."""
        super().__init__(f"{code} {reason}: {message}"[:TEXT_CHARS_MAX])
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def conflict(self) -> bool:
        """Say whether the write was based on a stale read: read and decide again."""
        return self.code == 409

    @property
    def transient(self) -> bool:
        """Say whether the same write may succeed later without a change.

        A 500 may be a passing failure of the server, or its answer to an invalid object.
        """
        return self.code in {UNANSWERED, 409, 410, 429} or self.code >= 500


class ApiRefused(ApiError):
    """The server refused, and nothing has changed."""


class ApiUnanswered(ApiError):
    """No answer, or one of a server in trouble: what was asked may have been done."""


def unanswered(what: str) -> ApiUnanswered:
    """Return the error of a request that got no answer."""
    return ApiUnanswered(UNANSWERED, "Unanswered", what)


def read_answer(status: int, retry_after: str, text: str | bytes) -> Object:
    """Return the object of an answer. Raises ApiRefused, ApiUnanswered.

    A good answer that cannot be read is an error, not an absent object: no decision may rest on it.
    """
    if 200 <= status < 300:
        found = read_json(text)
        if not isinstance(found, dict):
            raise ApiUnanswered(UNANSWERED, "Unreadable", f"{type(found).__name__}, not an object")
        return found
    try:
        found = read_json(text)
    except ApiError:
        found = None
    raise _failure(status, retry_after, found if isinstance(found, dict) else {}, text)


def _failure(status: int, retry_after: str, plain: Object, text: str | bytes) -> ApiError:
    kind = ApiRefused if status in _NOT_DONE else ApiUnanswered
    raw = text if isinstance(text, str) else text.decode(errors="replace")
    reason, message = str(plain.get("reason") or ""), str(plain.get("message") or raw)
    return kind(status, reason, message[:TEXT_CHARS_MAX], retry_after_s(status, retry_after))


def read_json(text: str | bytes) -> Any:
    """Read what the API server says. Raises ApiUnanswered for what is none of its JSON."""
    try:
        return parsed(text, API_ANSWER_BYTES_MAX, API_DEPTH_MAX)
    except (PeerError, RecursionError) as error:  # an object may be nested deeper than we can go
        raise ApiUnanswered(UNANSWERED, "Unreadable", str(error)) from error


def retry_after_s(status: int, header: str) -> float:
    """Return how long a server asks to wait; 0 when it does not ask, or names a date."""
    if status not in ASKS_TO_WAIT or not header.isdecimal():
        return 0.0
    return min(float(header), RETRY_AFTER_MAX_S)


def request_headers(token: str | None, content: str | None = None) -> dict[str, str]:
    """Return the headers of a request by the user of ``token``, with a body of type ``content``."""
    headers = {"Accept": JSON}
    if content is not None:
        headers["Content-Type"] = content
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return headers
