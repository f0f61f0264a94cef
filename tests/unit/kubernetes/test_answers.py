"""An answer says whether the server has changed anything."""

import pytest

from penstock.kubernetes.answers import ApiRefused, ApiUnanswered, read_answer, request_headers


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 429])
def test_a_refusal_has_changed_nothing(status: int) -> None:
    with pytest.raises(ApiRefused, match=f"{status} Why: because") as raised:
        read_answer(status, "", '{"reason": "Why", "message": "because"}')
    assert raised.value.code == status


@pytest.mark.parametrize("status", [302, 500, 502, 503, 504])
def test_a_server_in_trouble_may_have_done_what_was_asked(status: int) -> None:
    with pytest.raises(ApiUnanswered, match="no JSON at all"):
        read_answer(status, "", "no JSON at all")


@pytest.mark.parametrize("text", ["", "[]", "null", "{", b"\xff", "[" * 2000])
def test_a_good_answer_that_is_no_object_is_not_taken_for_an_absent_one(text: str | bytes) -> None:
    with pytest.raises(ApiUnanswered, match="Unreadable"):
        read_answer(200, "", text)


def test_a_server_that_asks_to_wait_is_left_alone_within_bounds() -> None:
    for header, wait_s in (("7", 7.0), ("99999", 120.0), ("tomorrow", 0.0), ("", 0.0)):
        with pytest.raises(ApiRefused) as raised:
            read_answer(429, header, "{}")
        assert raised.value.retry_after_s == wait_s


def test_a_request_without_a_token_names_none() -> None:
    assert "Authorization" not in request_headers(None)
    assert request_headers("secret", "application/json")["Authorization"] == "Bearer secret"
