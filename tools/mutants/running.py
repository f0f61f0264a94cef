"""Runs faults: in copies of the source tree, some at a time, and remembers the verdicts.

A fault is *noticed* when a test fails, when the tests cannot be imported, or when they do not end in
time. The verdict is kept with a digest of the faulty source and of the tests that were run, so a
second run repeats only what has changed. A fault whose tests fail without it says nothing. So every
test file is run once on the unchanged source, before the first fault.
"""

import hashlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.mutants.table import REPOSITORY, Fault

FOLDER = REPOSITORY / "build" / "mutants"
TEST_TIMEOUT_S = 60  # of one test: with some faults a test would wait for ever
FAULT_TIMEOUT_S = 300
ALL_TIMEOUT_S = 3600  # of all tests, without a fault
SOURCE_PATHS = ("worker", "operator", "spark", ".")
_NOTICED_BY = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
PASSED = 0  # exit statuses of pytest
NOTHING_RUN = (4, 5)  # its arguments were wrong, or no test was found


class CannotRunError(Exception):
    """The tests say nothing: they fail without a fault, or there are none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one fault. ``by`` names the test that noticed it; empty when none did."""

    id: str
    key: str
    noticed: bool
    by: str
    seconds: float


class Results:
    """The verdicts of all runs so far, in one file, which is written after every fault."""

    def __init__(self, path: Path) -> None:
        """Read what is there."""
        self._path = path
        self._known: dict[str, Verdict] = {}
        if path.exists():
            self._known = {plain["id"]: Verdict(**plain) for plain in json.loads(path.read_text())}

    def known(self, fault: Fault, key: str) -> Verdict | None:
        """Return the verdict of the same fault on the same source and tests."""
        found = self._known.get(fault.id)
        return found if found is not None and found.key == key else None

    def add(self, verdict: Verdict) -> None:
        """Keep a verdict."""
        self._known[verdict.id] = verdict
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps([asdict(v) for v in self._known.values()], indent=1))
        temporary.replace(self._path)


class Tree:
    """A copy of the source tree, in which one file at a time is changed."""

    def __init__(self, folder: Path) -> None:
        """Copy what git knows, and what it would add."""
        self.folder = folder
        self._changes = 0
        shutil.rmtree(folder, ignore_errors=True)
        listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        names = subprocess.run(listed, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (REPOSITORY / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / name, folder / name)

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

    def test(self, tests: Sequence[str], limit_s: float, *options: str) -> tuple[int | None, str]:
        """Run test files; return the exit status of pytest, None after ``limit_s``, and what it said."""
        flags = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", "--hypothesis-seed=0")
        command = [sys.executable, "-m", "pytest", *flags, "-o", f"timeout={TEST_TIMEOUT_S}", *options, *tests]
        paths = os.pathsep.join(str(self.folder / path) for path in SOURCE_PATHS)
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what its tests have started
            said, _ = process.communicate()
            return None, said
        return process.returncode, said


def key_of(fault: Fault) -> str:
    """Return the digest of what the verdict depends on: the faulty source, and the tests by name and content."""
    seen = hashlib.sha256(fault.applied((REPOSITORY / fault.file).read_text(encoding="utf-8")).encode())
    for test in fault.tests:
        path = REPOSITORY / test
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            seen.update(file.name.encode() + file.read_bytes())
    return seen.hexdigest()


def tried(fault: Fault, tree: Tree, key: str) -> Verdict:
    """Run the tests of one fault. Raises CannotRunError when pytest could not run them."""
    began = time.monotonic()
    source = fault.applied((tree.folder / fault.file).read_text(encoding="utf-8"))
    with tree.changed(fault.file, source):
        status, said = tree.test(fault.tests, FAULT_TIMEOUT_S)
    if status in NOTHING_RUN:
        raise CannotRunError(f"{fault.id}: pytest ended with {status}:\n{said}")
    took_s = round(time.monotonic() - began, 1)
    return Verdict(fault.id, key, status != PASSED, _noticed_by(status, said), took_s)


def _noticed_by(status: int | None, said: str) -> str:
    if status is None:
        return f"no end within {FAULT_TIMEOUT_S} s"
    if status < 0:
        return f"the process died of {signal.Signals(-status).name}"
    found = _NOTICED_BY.search(said)
    return "" if found is None else found.group(1)


def check_unchanged(tree: Tree, tests: Iterable[str]) -> None:
    """Run all test files without a fault. Raises CannotRunError when one fails."""
    status, said = tree.test(sorted(set(tests)), ALL_TIMEOUT_S, "-o", "timeout=300")
    if status != PASSED:
        raise CannotRunError(f"the tests fail without a fault:\n{said}")


def run(faults: Sequence[Fault], results: Results, jobs: int, say: Callable[[Verdict, bool], None]) -> list[Verdict]:
    """Return the verdict of each fault; ``say`` hears each, and whether it was known before.

    Raises CannotRunError when the tests cannot judge.
    """
    keys = {fault.id: key_of(fault) for fault in faults}
    new = [fault for fault in faults if results.known(fault, keys[fault.id]) is None]
    for fault in faults:
        known = results.known(fault, keys[fault.id])
        if known is not None:
            say(known, True)
    if new:
        _run_new(new, keys, results, jobs, say)
    return [verdict for fault in faults if (verdict := results.known(fault, keys[fault.id])) is not None]


def _run_new(
    faults: Sequence[Fault],
    keys: dict[str, str],
    results: Results,
    jobs: int,
    say: Callable[[Verdict, bool], None],
) -> None:
    trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
    first = Tree(FOLDER / "tree-0")
    check_unchanged(first, (test for fault in faults for test in fault.tests))
    trees.put(first)
    for number in range(1, min(jobs, len(faults))):
        trees.put(Tree(FOLDER / f"tree-{number}"))

    def one(fault: Fault) -> Verdict:
        tree = trees.get()
        try:
            return tried(fault, tree, keys[fault.id])
        finally:
            trees.put(tree)

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(one, fault) for fault in faults]):
            results.add(done.result())
            say(done.result(), False)
