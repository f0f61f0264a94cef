"""The first process of a container: the kernel gives it no default action for a signal."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LOADING = """
import select
import sys

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "penstock.cli.app":
            print("loading", flush=True)
            # A signal that comes just before a system call does not end it: so no call is long.
            while not select.select([sys.stdin], [], [], 0.05)[0]:
                pass

sys.meta_path.insert(0, Slow())
from penstock.cli import main
main()
"""
APART = ["unshare", "--pid", "--fork", "--kill-child"]


@pytest.mark.skipif(shutil.which("unshare") is None or os.geteuid() != 0, reason="needs root and unshare")
def test_a_container_that_is_told_to_end_while_it_loads_ends() -> None:
    with subprocess.Popen(
        [*APART, sys.executable, "-c", LOADING, "worker", "keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as outer:
        assert outer.stdout is not None
        try:
            assert outer.stdout.readline() == "loading\n"
            (inner,) = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            os.kill(int(inner), signal.SIGTERM)
            assert outer.wait(10) == 128 + signal.SIGTERM
        finally:
            outer.kill()
