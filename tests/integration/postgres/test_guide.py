"""The page Kafka, windows, PostgreSQL in five minutes does what it says, with the servers of ``make servers``."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pages import session
from tools.servers.fetched import ServerMissing, needed
from tools.servers.java_server import java
from tools.servers.postgres import program

ROOT = Path(__file__).parents[3]


@pytest.fixture
def servers() -> Iterator[dict[str, str]]:
    """Run the servers of the page and give the variables that are printed. Skips where a server or psql is missing."""
    try:
        java()
        program("initdb")
        needed("mvn", "install Maven (Debian, Ubuntu: apt install maven)")
        needed("psql", "install the client of PostgreSQL (Debian, Ubuntu: apt install postgresql-client)")
    except ServerMissing as error:
        pytest.skip(str(error))
    command = [sys.executable, "-m", "tools.servers", "kafka", "postgres"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(3)]
        found = re.findall(r"(KAFKA|PGURI|PGPASSWORD)=(\S+)", "".join(lines))
        assert len(found) == 3, lines
        yield dict(found)
    finally:
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
        assert running.stdout is not None
        running.stdout.close()


def test_the_page_does_what_it_says(servers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in servers.items():
        monkeypatch.setenv(name, value)
    told = session(ROOT / "docs" / "kafka-to-postgres.md", tmp_path)
    assert [status for _, status, _ in told] == [0] * len(told), told
    text = "".join(text for _, _, text in told)
    assert re.search(r"^ +495 \| 594000 \| +\d+$", text, re.MULTILINE), text
    assert re.search(r"^ +sales \| 2\.0 +\| +\d+$", text, re.MULTILINE), text
