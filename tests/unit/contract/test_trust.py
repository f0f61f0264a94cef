from penstock.contract.control_messages import EnginePlace
from penstock.contract.trust import RunSecret, Trust

TRUST = Trust("words", b"ca", b"certificate", b"key", b"s" * 32)


def test_a_token_signs_exactly_its_parts() -> None:
    token = TRUST.token(b"job", b"1")
    assert TRUST.verifies(token, b"job", b"1")
    assert not TRUST.verifies(token, b"job", b"2")
    assert not TRUST.verifies(token, b"job1", b""), "no part may move into its neighbour"
    assert not TRUST.verifies(token + "0", b"job", b"1")
    assert not TRUST.verifies("ü", b"job", b"1"), "nonsense is refused, not an error"


def test_no_secret_is_shown() -> None:
    assert repr(TRUST) == "Trust(host='words')"
    assert repr(RunSecret(b"secret")) == "RunSecret()"
    assert "secret" not in repr(EnginePlace(secret="secret"))


def test_a_secret_of_a_run_is_shown_before_anything_is_said() -> None:
    mine, other = RunSecret(b"run"), RunSecret(b"another")
    token = mine.token(b"hello")
    assert mine.admits(token)
    assert mine.verifies(token, b"hello")
    assert not mine.verifies(token, b"other")
    assert not mine.admits(other.token(b"hello"))
    assert not mine.admits("")
    assert not mine.admits("ü")
