"""Calls and streams of the API server's client, where its own surroundings fail."""

import threading

import pytest

from penstock.base.values import replace
from penstock.kubernetes.answers import ApiUnanswered
from penstock.kubernetes.client import CONNECTIONS_KEPT_MAX, ApiClient
from penstock.kubernetes.logs import Stream, read_logs
from tests.unit.kubernetes.small_api import SmallApi, access_to


def test_a_token_that_cannot_be_read_is_no_answer(server: SmallApi) -> None:
    def renewed_just_now() -> str:
        raise FileNotFoundError(2, "No such file or directory", "token")

    client = ApiClient(replace(access_to(server), token=renewed_just_now))
    with pytest.raises(ApiUnanswered, match="token: No such file or directory"):
        client.get("/api/v1/namespaces/here/configmaps/a")
    with pytest.raises(ApiUnanswered, match="token"), client.lines("/api", None):
        pass
    client.close()


def test_more_logs_are_followed_than_connections_are_kept(server: SmallApi) -> None:
    streams = [Stream(f"words-worker-{number}", "keeper") for number in range(CONNECTIONS_KEPT_MAX + 2)]
    all_read = threading.Barrier(len(streams))
    for each in streams:
        server.logs[f"/api/v1/namespaces/here/pods/{each.pod}/log"] = all_read
    client = ApiClient(access_to(server), 1.0)
    said = dict(read_logs(client, streams, 10, follow=True))
    assert said == dict.fromkeys(streams, "hello")
    client.close()
