"""The host of engines wraps every line that user code writes, and hides its own outputs."""

import io
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from penstock.cluster.host import Begin, Ended, FromStarter, ToHost
from penstock.cluster.link import DescriptorLink
from penstock.cluster.memory_kills import MemoryKills
from penstock.contract.control_messages import EngineLaunch
from penstock.contract.ids import Incarnation, JobUid, Ordinal
from penstock.engine.pod_host import LINE_BYTES_MAX, PodHost, lines_of
from penstock.keeper.final_report import EXIT_STORAGE, story

WITHIN_S = 20.0

PARENT = """
import ctypes, os, sys
from penstock.cluster.parent import PR_SET_DUMPABLE, hide_from_others
os.setgid(65534)
os.setuid(65534)
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # as a program that was started so
_, mine = os.pipe()  # as a container's runtime gives its outputs to its user
if sys.argv[1] == "hidden":
    hide_from_others()
if os.fork() == 0:
    try:
        os.open(f"/proc/{os.getppid()}/fd/{mine}", os.O_WRONLY)
        os.write(1, b"open")
    except PermissionError:
        os.write(1, b"refused")
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody without rights")
@pytest.mark.parametrize(("how", "end"), [("hidden", b"refused"), ("as it is", b"open")])
def test_user_code_does_not_write_to_the_output_of_the_pod_host(how: str, end: bytes) -> None:
    done = subprocess.run([sys.executable, "-c", PARENT, how], check=True, stdout=subprocess.PIPE)
    assert done.stdout == end


def test_a_line_without_an_end_is_passed_on_in_pieces() -> None:
    stream = io.BytesIO(b"a\n" + b"x" * LINE_BYTES_MAX + b"yz\n\xff")
    assert [len(line) for line in lines_of(stream)] == [1, LINE_BYTES_MAX, 2, 1]


def test_an_engine_that_cannot_be_started_now_is_reported_and_its_host_goes_on(tmp_path: Path) -> None:
    """Else the container would end, and its keeper would say that the kernel has killed the engine."""
    (tmp_path / "file").touch()
    life, scratch = Incarnation("life-1"), str(tmp_path / "file" / "life-1")
    launch = EngineLaunch(JobUid("uid"), "words", "default", Ordinal(0), life, "", "job", "s", scratch, 0.1)
    ours, theirs = socket.socketpair()
    keeper, host = DescriptorLink(ours, FromStarter), PodHost(DescriptorLink(theirs, ToHost), print, MemoryKills())
    serving = threading.Thread(target=host.run)
    serving.start()
    link, other = socket.socketpair()
    for _ in range(2):
        keeper.send(Begin(launch), link.fileno())
        message, _ = keeper.receive(time.monotonic() + WITHIN_S)
        assert isinstance(message, Ended)
        assert (message.incarnation, message.status) == (life, EXIT_STORAGE)
        said = story(message.status, message.last_lines, None).splitlines()[0]
        assert said.endswith(f"the engine cannot be started: [Errno 20] Not a directory: '{scratch}'")
    keeper.close()
    serving.join()
    for each in (link, other):
        each.close()
