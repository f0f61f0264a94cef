"""The host of engines wraps every line that user code writes, and hides its own outputs."""

import io
import os
import subprocess
import sys

import pytest

from penstock.engine.pod_host import LINE_BYTES_MAX, lines_of

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
