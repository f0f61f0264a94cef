"""A schema registry with the REST API of Confluent: schemas by id, and the id of a schema of a subject.

A schema of an id never changes, so it is asked for once. A registry that does not answer says nothing about a record:
that is a StorageError, and the attempt is tried again. Only its own "there is no such id" is about the record.
"""

import json
from collections.abc import Mapping
from typing import Any

from penstock.base.errors import ConfigError, PeerError, StorageError
from penstock.base.threads import Lock, monotonic
from penstock.connectors.secret_places import read_secret
from penstock.contract.codec import parsed
from penstock.contract.kafka_options import KafkaInput, KafkaOutput

ANSWER_MAX_S = 10.0
ANSWER_BYTES_MAX = 4 * 1024 * 1024
REFERENCES_MAX = 100  # schemas that a schema names, and those that these name
UNKNOWN_FOR_S = 10.0  # an id that the registry does not know is not asked for again in this time
CONTENT = "application/vnd.schemaregistry.v1+json"
REMEDIES = {
    401: "it refuses the user or the password: check registryUser and registryPassword",
    403: "the user may not do this: grant reading of schemas to a source, and writing of the subject to a sink",
}


class UnknownSchema(Exception):
    """The registry does not know the id of a record's schema. The text says so."""


class SchemaRegistry:
    """The registry that options name. Any thread may use it. Every call may block for ``ANSWER_MAX_S``."""

    def __init__(self, options: KafkaInput | KafkaOutput) -> None:
        """Connect to nothing yet. Raises ConfigError when options do not fit together."""
        if options.registry is None:
            raise ConfigError("kafka: format avro needs registry, the address of the schema registry")
        if (options.registry_user is None) != (options.registry_password is None):
            raise ConfigError("kafka: give registryUser and registryPassword, or neither of them")
        self.url = options.registry.rstrip("/")
        self._user, self._password = options.registry_user, options.registry_password
        self._unknown: dict[int, float] = {}
        self._lock = Lock()

    def schema(self, number: int) -> list[Any]:
        """Return the schema of an id behind those that it refers to, as JSON values.

        Raises UnknownSchema when there is none, StorageError when a retry may help.
        """
        with self._lock:
            asked_at = self._unknown.get(number)
        if asked_at is None or monotonic() - asked_at > UNKNOWN_FOR_S:
            found = self._ask("GET", f"/schemas/ids/{number}", none_at=404)
            if found is not None:
                self._check(found, "schema", str, f"/schemas/ids/{number}")
                return self._with_references(found, f"schema {number}")
            with self._lock:
                self._unknown[number] = monotonic()
        raise UnknownSchema(f"the registry {self.url} has no schema {number}")

    def id_of(self, subject: str, schema: Mapping[str, Any], *, register: bool) -> int:
        """Return the id of a schema of a subject; ``register`` makes it a version of the subject if it is none.

        Raises ConfigError when the registry refuses it, or does not have it; StorageError when a retry may help.
        """
        body = {"schema": json.dumps(schema)}
        path = f"/subjects/{_quoted(subject)}"
        found = self._ask("POST", f"{path}/versions" if register else path, body, none_at=404, subject=subject)
        if found is None:
            raise ConfigError(
                f"kafka sink: the registry {self.url} does not have the schema of the rows under subject {subject!r}:"
                f" register it, or set registerSchema: true. It is {body['schema']}"
            )
        self._check(found, "id", int, path)
        return int(found["id"])

    def _with_references(self, found: Mapping[str, Any], what: str) -> list[Any]:
        """Return a schema behind all that it refers to, each once."""
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise UnknownSchema(f"{what} of the registry is of type {kind}, due is AVRO")
        named: dict[str, Any] = {}
        self._collect(found, named)
        return [*named.values(), _parsed(found["schema"], what)]

    def _collect(self, found: Mapping[str, Any], named: dict[str, Any]) -> None:
        for each in found.get("references") or ():
            if each["name"] in named or len(named) >= REFERENCES_MAX:
                continue
            what = f"/subjects/{_quoted(each['subject'])}/versions/{int(each['version'])}"
            inner = self._ask("GET", what, none_at=404)
            if inner is None:
                raise UnknownSchema(f"the registry {self.url} has no {what}, which a schema refers to")
            self._check(inner, "schema", str, what)
            self._collect(inner, named)
            named[each["name"]] = _parsed(inner["schema"], what)

    def _check(self, found: Mapping[str, Any], field: str, kind: type, path: str) -> None:
        """Raise StorageError for an answer that is none of a registry, as of a page for signing in."""
        if not isinstance(found.get(field), kind):
            raise StorageError(f"kafka: schema registry {self.url} answers {path} without {field}: check registry")

    def _ask(
        self, method: str, path: str, body: Any = None, *, none_at: int, subject: str = ""
    ) -> Mapping[str, Any] | None:
        """Return the answer; None when the registry says by ``none_at`` that there is none.

        Raises StorageError when a retry may help, ConfigError.
        """
        import httpx  # noqa: PLC0415 - only jobs with a registry load it

        about = f"kafka: schema registry {self.url}"
        auth = None
        if self._user is not None and self._password is not None:
            auth = (self._user, read_secret(self._password, "kafka: registryPassword"))
        try:
            with (
                httpx.Client(auth=auth, timeout=ANSWER_MAX_S, follow_redirects=True) as client,
                client.stream(method, self.url + path, json=body, headers={"Accept": CONTENT}) as answer,
            ):
                text = _limited(answer, about)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise StorageError(f"{about} does not answer: {error}: check registry, and that it runs") from error
        status = answer.status_code
        if status == none_at and _of_a_registry(text, none_at):
            return None
        if status in REMEDIES:
            raise StorageError(f"{about}: {REMEDIES[status]}")
        if status in (409, 422):
            raise ConfigError(
                f"kafka sink: the registry {self.url} refuses the schema of the rows under subject {subject!r}:"
                f" {_said(text)}: change the columns so that it fits, or write to another subject"
            )
        if status != 200:
            raise StorageError(f"{about} answers {status} to {path}: {_said(text)}: check registry, and that it runs")
        found = _parsed(text, about)
        if not isinstance(found, dict):
            raise StorageError(f"{about} answers {path} with no object: check registry")
        return found


def _limited(answer: Any, about: str) -> str:
    text = b""
    for piece in answer.iter_bytes():
        text += piece
        if len(text) > ANSWER_BYTES_MAX:
            raise StorageError(f"{about} answers with more than {ANSWER_BYTES_MAX:,} bytes: check registry")
    return text.decode(errors="replace")


def _parsed(text: str, about: str) -> Any:
    try:
        return parsed(text)
    except PeerError as error:
        raise StorageError(f"{about}: the answer is no JSON: {text[:100]!r}: check registry") from error


def _of_a_registry(text: str, status: int) -> bool:
    """Say whether an error is one of a registry (40403: no schema), not of a proxy before it or of a wrong path."""
    try:
        answer = parsed(text)
    except PeerError:
        return False
    code = answer.get("error_code") if isinstance(answer, dict) else None
    return isinstance(code, int) and code // 100 == status


def _said(text: str) -> str:
    """Return what a registry says in an error."""
    try:
        return str(parsed(text)["message"])
    except (PeerError, KeyError, TypeError):
        return text[:200]


def _quoted(name: str) -> str:
    from urllib.parse import quote  # noqa: PLC0415 - beside its only use

    return quote(name, safe="")
