import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.contract.trust import Trust
from penstock.storage.trust import FILE_BYTES_MAX, TrustFolder, TrustWatch, read_trust
from tests.support.certificates import also_believing, authority, trust

HOST = "words.default.job.penstock.dev"
OLD, NEW = authority("old"), authority("new")


def mount(folder: Path, **changes: bytes) -> Path:
    files = {"ca": b"A", "certificate": b"C", "key": b"K", "secret": b"s" * 32, **changes}
    names = {"ca": "ca.crt", "certificate": "tls.crt", "key": "tls.key", "secret": "worker.key"}
    for part, data in files.items():
        (folder / names[part]).write_bytes(data)
    return folder


def test_a_mounted_secret_is_read(tmp_path: Path) -> None:
    found = read_trust(mount(tmp_path), "words")
    assert (found.ca, found.certificate, found.key, found.secret) == (b"A", b"C", b"K", b"s" * 32)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    mount(tmp_path)
    (tmp_path / "tls.key").unlink()
    with pytest.raises(ConfigError, match=r"tls\.key: No such file"):
        read_trust(tmp_path, "words")


@pytest.mark.parametrize("data", [b"", b"s" * 31, b"x" * (FILE_BYTES_MAX + 1)])
def test_a_key_that_signs_badly_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"worker\.key"):
        read_trust(mount(tmp_path, secret=data), "words")


def put(folder: Path, shown: Trust) -> Path:
    """Replace the files as the kubelet does: each is another one afterwards."""
    folder.mkdir(exist_ok=True)
    files = {
        "ca.crt": shown.ca,
        "tls.crt": shown.certificate,
        "tls.key": shown.key,
        "worker.key": shown.secret,
    }
    for name, data in files.items():
        part = folder / f"{name}.part"
        part.write_bytes(data)
        part.rename(folder / name)
    return folder


def test_renewed_certificates_are_taken_once(tmp_path: Path) -> None:
    before, after = trust(HOST, OLD), also_believing(trust(HOST, OLD), NEW)
    folder = TrustFolder(put(tmp_path, before), HOST)
    assert not folder.look()
    assert folder.now == before
    put(tmp_path, after)
    assert folder.look()
    assert folder.now == after
    assert not folder.look()


def test_files_that_were_written_again_with_the_same_content_are_no_news(tmp_path: Path) -> None:
    before = trust(HOST, OLD)
    folder = TrustFolder(put(tmp_path, before), HOST)
    put(tmp_path, before)
    assert not folder.look()
    assert folder.now == before


def test_files_that_are_replaced_while_they_are_read_are_taken_by_the_next_look(tmp_path: Path) -> None:
    before, after = trust(HOST, OLD), also_believing(trust(HOST, OLD), NEW)
    folder = TrustFolder(put(tmp_path, before), HOST)
    part = tmp_path / "tls.key.part"
    os.mkfifo(part)
    part.rename(tmp_path / "tls.key")  # it is read last
    with ThreadPoolExecutor(1) as threads:
        looks = threads.submit(folder.look)
        with (tmp_path / "tls.key").open("wb") as key:  # opens once the other end is read
            put(tmp_path, after)
            key.write(after.key)
        assert not looks.result()
    assert folder.now == before
    assert folder.look()
    assert folder.now == after


UNUSABLE: dict[str, tuple[Callable[[], Trust], str]] = {
    "of an authority that nobody knows yet": (lambda: trust(HOST, NEW), "no authority"),
    "with another secret": (
        lambda: also_believing(trust(HOST, OLD, secret=b"x" * 32), NEW),
        "not the secret",
    ),
    "whose key is another's": (
        lambda: replace(trust(HOST, OLD), key=trust(HOST, OLD).key),
        "of no use",
    ),
    "that are no certificates": (lambda: Trust(HOST, b"A", b"C", b"K", b"s" * 32), "of no use"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_certificates_that_cannot_be_taken_change_nothing(tmp_path: Path, what: str) -> None:
    make, reason = UNUSABLE[what]
    before = trust(HOST, OLD)
    folder = TrustFolder(put(tmp_path, before), HOST)
    put(tmp_path, make())
    with pytest.raises(ConfigError, match=reason):
        folder.look()
    assert folder.now == before
    assert not folder.look(), "it is said once"
    after = also_believing(trust(HOST, OLD), NEW)
    put(tmp_path, after)
    assert folder.look(), "what can be taken later is taken"
    assert folder.now == after


def test_a_watch_tells_of_each_change_and_each_reason_once(tmp_path: Path) -> None:
    folder = TrustFolder(put(tmp_path, trust(HOST, OLD)), HOST)
    told: list[str] = []
    watch = TrustWatch(folder, lambda: told.append("taken"), told.append)
    watch.look()
    assert told == []
    (tmp_path / "tls.key").unlink()
    watch.look()
    watch.look()
    assert len(told) == 1
    assert "tls.key: No such file" in told[0]
    put(tmp_path, also_believing(trust(HOST, OLD), NEW))
    watch.look()
    watch.look()
    assert told[1:] == ["taken"]
