from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.storage.trust import FILE_BYTES_MAX, read_trust


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
