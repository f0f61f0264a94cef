"""Where a connector finds a secret."""

from pathlib import Path

import pytest

from penstock.base.errors import ConfigError, StorageError
from penstock.connectors.secret_places import read_secret
from penstock.contract import pod


def test_a_secret_is_read_from_a_variable_or_a_file_without_the_end_of_its_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PLACE", "a b")
    (tmp_path / "secret").write_text("c d\n")
    assert read_secret("env:PLACE", "p") == "a b"
    assert read_secret(f"file:{tmp_path}/secret", "p") == "c d"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("env:NO_SUCH", "p: there is no variable NO_SUCH .*secretKeyRef"),
        ("file:/no/such", "p: there is no file /no/such"),
    ],
)
def test_a_secret_that_is_missing_is_named_with_its_place(place: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_secret(place, "p")


def test_a_secret_of_a_pod_is_read_from_its_mount_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="p: secret:db/password is a Secret of Kubernetes, and this is no pod"):
        read_secret("secret:db/password", "p")
    monkeypatch.setenv(pod.ENV_POD_NAME, "words-worker-0")
    monkeypatch.setenv(pod.ENV_ROOT, str(tmp_path))
    with pytest.raises(StorageError, match="p: there is no Secret db with the key password"):
        read_secret("secret:db/password", "p")
    mounted = Path(f"{tmp_path}{pod.SECRETS_FOLDER}/db/password")
    mounted.parent.mkdir(parents=True)
    mounted.write_text("e f\n")
    assert read_secret("secret:db/password", "p") == "e f"
