"""User code cannot give orders in the name of a leader, even with all that its container mounts.

The Secrets and the pod are those that the operator makes; server and client are those of keepers,
over real sockets.
"""

import base64
import json
import time
from collections.abc import Iterator

import pytest

from penstock.base.errors import PeerError
from penstock.cluster.rpc import Client, ListenAddress, Method, Nothing, Server, Unreachable
from penstock.contract import pod
from penstock.contract.schema import Plain
from penstock.contract.trust import Trust
from penstock.keeper.pod_platform import CONTROL_TOKEN
from penstock_operator.api.plain import Object, list_at, object_at, text_at
from penstock_operator.reconcile.accept import target_of
from penstock_operator.resources.pods import pod_template
from penstock_operator.resources.target import Owner
from tests.support.certificates import secrets_of

OWNER = Owner("words", "team", "0f1e-uid")
SPEC = {
    "image": "example/penstock:1",
    "job": {"entrypoint": "jobs:count"},
    "checkpoint": {"volume": {"claimName": "shared"}},
}
PING = Method("ping", Nothing, Nothing)
HOST = pod.certificate_host(OWNER.name, OWNER.namespace)
HEARD = "heard"

Files = dict[str, bytes]


def mounted(secrets: dict[str, Object], container: str) -> Files:
    """Return the files of Secrets that a container of the rendered pod finds in its folders."""
    spec = object_at(pod_template(target_of(OWNER, json.dumps(SPEC))), "spec")
    volumes = {text_at(v, "name"): v for v in list_at(spec, "volumes")}
    own = next(c for c in list_at(spec, "containers") if text_at(c, "name") == container)
    found: Files = {}
    for mount in list_at(own, "volumeMounts"):
        volume = volumes[text_at(mount, "name")]
        name = text_at(volume, "secret", "secretName")
        data = object_at(secrets[name], "data") if name else {}
        for key in shown(volume, data):
            path = f"{text_at(mount, 'mountPath')}/{key}"
            found[path] = base64.b64decode(str(data[key]))
    return found


def shown(volume: Plain, data: Object) -> list[str]:
    items = list_at(volume, "secret", "items")
    return [text_at(i, "key") for i in items] if items else list(data)


def trust_of(files: Files) -> Trust:
    keys = (pod.CA_KEY, pod.CERTIFICATE_KEY, pod.PRIVATE_KEY, pod.WORKER_KEY)
    return Trust(HOST, *(files[f"{pod.TRUST_FOLDER}/{key}"] for key in keys))


def token_of(secret: bytes) -> str:
    """Derive a control token from a key, as keepers do."""
    return Trust(HOST, b"", b"", b"", secret).token(CONTROL_TOKEN, OWNER.uid.encode())


@pytest.fixture(scope="module")
def secrets() -> dict[str, Object]:
    now_s = time.time_ns() / 1e9  # gRPC compares with the machine's clock
    names = pod.secret_names(OWNER.name)
    return {name: secrets_of(OWNER, name, now_s)[0] for name in names}


@pytest.fixture
def keeper(secrets: dict[str, Object]) -> Iterator[Server]:
    trust = trust_of(mounted(secrets, pod.KEEPER_CONTAINER))
    made = Server({PING: lambda _: Nothing()}, token_of(trust.secret), ListenAddress(trust=trust))
    yield made
    made.close()


def said(address: str, token: str, trust: Trust | None) -> str:
    """Call a keeper; return how that ended."""
    client = Client(address, token, trust)
    try:
        client.call(PING, Nothing(), timeout_s=2.0)
    except (Unreachable, PeerError) as error:
        return type(error).__name__
    finally:
        client.close()
    return HEARD


def test_a_keeper_accepts_calls_of_a_keeper(keeper: Server, secrets: dict[str, Object]) -> None:
    trust = trust_of(mounted(secrets, pod.KEEPER_CONTAINER))
    assert said(keeper.address, token_of(trust.secret), trust) == HEARD


def test_a_keeper_refuses_calls_made_with_all_that_an_engine_mounts(keeper: Server, secrets: dict[str, Object]) -> None:
    files = mounted(secrets, pod.ENGINE_CONTAINER)
    tokens = {name: token_of(data) for name, data in files.items()} | {"the uid": OWNER.uid}
    ways = {f"token of {name}": said(keeper.address, t, trust_of(files)) for name, t in
            tokens.items()}  # fmt: skip
    plain = said(keeper.address, tokens[f"{pod.TRUST_FOLDER}/{pod.WORKER_KEY}"], None)
    assert set(ways.values()) | {plain} == {"Unreachable"}, ways


def test_a_token_of_an_engines_key_is_refused_where_its_certificate_is_not(
    secrets: dict[str, Object],
) -> None:
    own = trust_of(mounted(secrets, pod.KEEPER_CONTAINER))
    files = mounted(secrets, pod.ENGINE_CONTAINER)
    server = Server({PING: lambda _: Nothing()}, token_of(own.secret), ListenAddress(trust=own))
    try:
        ends = {name: said(server.address, token_of(data), own) for name, data in files.items()}
    finally:
        server.close()
    assert set(ends.values()) == {"PeerError"}, ends


def test_an_engine_is_not_taken_for_a_keeper(secrets: dict[str, Object]) -> None:
    """An engine that could answer at a keeper's address would get the tokens of callers."""
    own = trust_of(mounted(secrets, pod.KEEPER_CONTAINER))
    posing = trust_of(mounted(secrets, pod.ENGINE_CONTAINER))
    server = Server({PING: lambda _: Nothing()}, token_of(own.secret), ListenAddress(trust=posing))
    try:
        assert said(server.address, token_of(own.secret), own) == "Unreachable"
    finally:
        server.close()
