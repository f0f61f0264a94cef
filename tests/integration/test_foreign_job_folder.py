"""The folder of a job that another user of the machine has prepared: no command believes what is in it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

# Another user of the machine, who says that the job runs and waits for whoever sends its token.
STRANGER = """
import json, os, socket, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
folder = os.path.join(sys.argv[1], "words")
os.mkdir(folder, 0o755)
with socket.create_server(("127.0.0.1", 0)) as server:
    address = "127.0.0.1:%d" % server.getsockname()[1]
    with open(os.path.join(folder, "endpoint.json"), "w") as file:
        json.dump({"is": "Endpoint", "pid": os.getpid(), "address": address, "token": "secret"}, file)
    print("ready", flush=True)
    sys.stdin.read()
    server.setblocking(False)
    try:
        server.accept()
        print("DIALLED", flush=True)
    except BlockingIOError:
        print("not dialled", flush=True)
"""


@pytest.fixture
def jobs() -> Iterator[Path]:
    """A folder in which anybody may make a job's; pytest's own ones are closed to others already."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-jobs-"))
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder)


def penstock(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "penstock.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("command", [["status"], ["stop"], ["checkpoint"], ["rescale", "2"]], ids=" ".join)
def test_no_command_dials_an_address_that_another_user_has_put_there(jobs: Path, command: list[str]) -> None:
    stranger = subprocess.Popen(
        [sys.executable, "-c", STRANGER, str(jobs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert stranger.stdout is not None
    with stranger:
        assert stranger.stdout.readline() == "ready\n"
        verb, *rest = command
        done = penstock(verb, "words", *rest, "--dir", str(jobs))
        said, _ = stranger.communicate()
    assert done.returncode == 3, done
    assert "belongs to user 65534" in done.stderr
    assert "run this as user 65534, or name a folder of your own" in done.stderr
    assert said == "not dialled\n"


@pytest.mark.parametrize("name", ["supervisor.log", "workers/0/log"])
def test_logs_reads_no_file_that_another_user_has_put_there(jobs: Path, name: str) -> None:
    log = jobs / "words" / name
    log.parent.mkdir(parents=True)
    os.mkfifo(log)  # whoever opens it waits until somebody writes
    os.chown(jobs / "words", 65534, 65534)
    done = penstock("logs", "words", "--dir", str(jobs))
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "belongs to user 65534" in done.stderr
