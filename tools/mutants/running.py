"""Runs faults: in copies of the source tree, some at a time, and remembers the verdicts.

A fault is *noticed* when a test fails, or when the tests cannot be imported. It *hangs* a test that does
not end in time. The verdict is kept with a digest of the faulty source and of the tests that were run, so
a second run repeats only what has changed. A fault whose tests fail without it says nothing. So every
test file is run once on the unchanged source, before the first fault.
"""

import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tools.mutants.ledger import Outcome, Verdict, entry_of, key_of
from tools.mutants.table import REPOSITORY, Fault
from tools.servers.fetched import CACHE

FOLDER = REPOSITORY / "build" / "mutants"
KERNELS = FOLDER / "kernels"  # compiled code of all trees: a new tree has most of its source from the one before
TEST_TIMEOUT_S = 60  # of one test: with some faults a test would wait for ever
FAULT_TIMEOUTS = 5  # as many time-outs of a test have all tests of a fault
ALL_TIMEOUT_S = 3600  # of all tests, without a fault
SOURCE_PATHS = ("worker", "operator", "spark", ".")
_NOTICED_BY = re.compile(r"^(?:FAILED|ERROR) (\S+)(.*)", re.MULTILINE)
_TIMED_OUT = "from pytest-timeout"
# The same drawn examples in each run; more of them than in make test.
DRAWN = ("--hypothesis-seed=0", "--hypothesis-profile=faults")
PASSED = 0  # exit statuses of pytest
NOTHING_RUN = (4, 5)  # its arguments were wrong, or no test was found


class CannotRunError(Exception):
    """The tests say nothing: they fail without a fault, or there are none."""


class Tree:
    """A copy of the source tree, in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        """Copy what git knows, and what it would add. The servers that tests start are shared."""
        self.folder = folder
        self._changes = 0
        shutil.rmtree(folder, ignore_errors=True)
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        names = subprocess.run(listed, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (REPOSITORY / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / name, folder / name)
        CACHE.mkdir(parents=True, exist_ok=True)
        (folder / "build").mkdir()
        (folder / "build" / CACHE.name).symlink_to(CACHE)

    @contextmanager
    def changed(self, file: str, source: str) -> Iterator[None]:
        """Put ``source`` in the place of a file.

        A compiled file is taken for current by the second of its source's last change and by its
        size. So every change gets a second of its own.
        """
        path = self.folder / file
        before, at = path.read_text(encoding="utf-8"), path.stat()
        self._changes += 1
        path.write_text(source, encoding="utf-8")
        os.utime(path, (at.st_atime + self._changes, at.st_mtime + self._changes))
        try:
            yield
        finally:
            path.write_text(before, encoding="utf-8")
            os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))

    def test(self, tests: Sequence[str], test_s: float, all_s: float) -> tuple[int | None, str]:
        """Run test files; return the exit status of pytest, None after ``all_s``, and what it said.

        A single test fails after ``test_s``.
        """
        flags = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", *DRAWN)
        command = [sys.executable, "-m", "pytest", *flags, "-o", f"timeout={test_s}", *tests]
        paths = os.pathsep.join(str(self.folder / path) for path in SOURCE_PATHS)
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(KERNELS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=all_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what its tests have started
            said, _ = process.communicate()
            return None, said
        return process.returncode, said


def tried(fault: Fault, tree: Tree, test_s: float) -> Verdict:
    """Run the tests of one fault, each for ``test_s`` at most. Raises CannotRunError when pytest could not run them."""
    began = time.monotonic()
    source = fault.applied((tree.folder / fault.file).read_text(encoding="utf-8"))
    with tree.changed(fault.file, source):
        status, said = tree.test(fault.tests, test_s, FAULT_TIMEOUTS * test_s)
    if status in NOTHING_RUN:
        raise CannotRunError(f"{fault.id}: pytest ended with {status}:\n{said}")
    outcome, by = judged(status, said)
    took_s, today = round(time.monotonic() - began), datetime.now(UTC).date().isoformat()
    return Verdict(fault.id, entry_of(fault), key_of(fault), outcome, by, took_s, today)


def judged(status: int | None, said: str) -> tuple[Outcome, str]:
    """Return how the tests of a fault ended, and the test that showed it, by what pytest said."""
    if status == PASSED:
        return Outcome.SURVIVED, ""
    if status is None:
        return Outcome.HANGS, "all tests together"
    if status < 0:
        return Outcome.NOTICED, f"the process died of {signal.Signals(-status).name}"
    found = _NOTICED_BY.search(said)
    test, why = ("", "") if found is None else found.groups()
    return Outcome.HANGS if _TIMED_OUT in why else Outcome.NOTICED, test


def check_unchanged(tree: Tree, tests: Iterable[str]) -> None:
    """Run all test files without a fault. Raises CannotRunError when one fails."""
    status, said = tree.test(sorted(set(tests)), ALL_TIMEOUT_S, ALL_TIMEOUT_S)
    if status != PASSED:
        raise CannotRunError(f"the tests fail without a fault:\n{said}")


def run(faults: Sequence[Fault], jobs: int, test_s: float) -> Iterator[Verdict]:
    """Yield the verdict of each fault as it comes, of ``jobs`` at a time.

    Raises CannotRunError when the tests cannot judge.
    """
    trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    first = Tree(FOLDER / "tree-0")
    check_unchanged(first, (test for fault in faults for test in fault.tests))
    trees.put(first)
    for number in range(1, min(jobs, len(faults))):
        trees.put(Tree(FOLDER / f"tree-{number}"))

    def one(fault: Fault) -> Verdict:
        tree = trees.get()
        try:
            return tried(fault, tree, test_s)
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(one, fault) for fault in faults]):
            yield done.result()
