"""One job in real processes with one order, and the judgement of what came out."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.base.errors import PenstockError
from penstock.base.limits import LOCAL_LEASE_DURATION_S
from penstock.cluster.rpc import Unreachable
from penstock.supervisor import connect
from tests.failpoints.orders import Action, Order
from tests.integration.local_job import EXAMPLE, REPOSITORY, Folders, check_exact, processes_of, settings_of

HOOK = REPOSITORY / "tests" / "failpoints" / "hook"
PAUSE_S = LOCAL_LEASE_DURATION_S + 2.0
LOOK_S = 0.05
STARTS_MAX = 3
WITHIN_S = 240.0  # of one start, on a machine that does much else
RATE = 150  # rows per second and file: checkpoints are taken while the job runs
Meanwhile = Callable[[Folders, threading.Event], None]  # the event is set when the command has ended
KEPT = {"OWNER.json", "PUBLISHED"}


@dataclass(slots=True)
class Outcome:
    """What became of one run. ``hit`` is empty when the occurrence did not come."""

    order: Order | None
    violations: list[str] = field(default_factory=list)
    hit: str = ""
    starts: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)

    def as_plain(self) -> dict[str, object]:
        """Return what the ledger keeps."""
        return {key: value for key, value in asdict(self).items() if key != "counts"}


class FailpointRun:
    """Runs the word count with the hook. It is started again when its own process was hit."""

    def __init__(
        self,
        root: Path,
        folders: Folders,
        order: Order | None,
        *,
        within_s: float = WITHIN_S,
        proxy: Path | None = None,
        meanwhile: Meanwhile | None = None,
    ) -> None:
        """Prepare the folders below ``root``; ``folders`` name the input, which runs may share.

        ``proxy`` is the control socket of a :class:`tests.support.tcp_proxy.TcpProxy`. ``meanwhile``
        acts on the run, on a thread of its own; it asks for a savepoint and a rescale by default.
        """
        self.points = root / "failpoints"
        self.folders = folders
        self.log = root / "run.log"
        self._order = order
        self._within_s = within_s
        self._proxy = proxy
        self._meanwhile = meanwhile or ask_for_more
        self._command = 0
        (self.points / "counts").mkdir(parents=True)
        if order is not None:
            (self.points / "order.json").write_text(json.dumps(order.as_plain()))

    def run(self) -> Outcome:
        """Run to the end of the job and judge."""
        begun, found = time.monotonic(), Outcome(self._order)
        while found.starts < STARTS_MAX:
            found.starts += 1
            ended = self._start(found)
            if ended == 0 or not self._excused(ended):
                break
        found.hit = self._hit().get("place", "")
        found.counts = {p.name.replace("|", "/"): p.stat().st_size for p in (self.points / "counts").iterdir()}
        found.seconds = round(time.monotonic() - begun, 1)
        if not found.violations:
            found.violations += self._judge()
        return found

    # --- The command ------------------------------------------------------------------------------

    def _start(self, found: Outcome) -> int:
        """Run the command once; return its status, a signal as its negative."""
        settings = [*settings_of(self.folders, rate=RATE), "checkpoint.interval=300ms"]
        given = [part for text in settings for part in ("--set", text)]
        command = [sys.executable, "-m", "penstock.cli", "run", str(EXAMPLE), "--workers", "2"]
        path = os.pathsep.join(filter(None, (str(HOOK), os.environ.get("PYTHONPATH", ""))))
        environment = {**os.environ, "FAILPOINTS": str(self.points), "PYTHONPATH": path}
        if self._proxy is not None:
            environment["FAILPOINTS_PROXY"] = str(self._proxy)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*command, *given, "--dir", str(self.folders.state)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        self._command = process.pid
        try:
            status = self._follow(process)
        finally:
            process.kill()
            process.wait()
        if status is None:
            found.violations.append(f"not ended within {self._within_s:.0f} s: {self._status()}")
            return -signal.SIGKILL
        if status and not self._excused(status):
            found.violations.append(f"exit status {status}: {self.last_lines()}")
        return status

    def _follow(self, process: "subprocess.Popen[bytes]") -> int | None:
        """Ask for other things meanwhile, and continue a process that was stopped. None: no end came."""
        over, begun, stopped_at = threading.Event(), time.monotonic(), 0.0
        threading.Thread(target=self._meanwhile, args=(self.folders, over), daemon=True).start()
        pauses = self._order is not None and self._order.action is Action.PAUSE
        while process.poll() is None and time.monotonic() < begun + self._within_s:
            hit = self._hit() if pauses else {}
            if hit and not stopped_at:
                stopped_at = time.monotonic()
            elif hit and time.monotonic() > stopped_at + PAUSE_S:
                pauses = False
                with suppress(ProcessLookupError):  # it was given up, and ended
                    os.kill(hit["pid"], signal.SIGCONT)
            over.wait(LOOK_S)
        over.set()
        return process.poll()

    def _hit(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.points / "hit.json").read_text())
            return found
        except (FileNotFoundError, json.JSONDecodeError):  # not yet, or in the making
            return {}

    def _excused(self, status: int) -> bool:
        """Say whether the command's own process was hit: it may end, and the next one goes on."""
        return status != 0 and self._hit().get("pid") == self._command

    def _status(self) -> str:
        try:
            client = connect(self.folders.state, "wordcount")
            try:
                return str(client.status())
            finally:
                client.close()
        except (PenstockError, Unreachable, OSError) as error:
            return f"no status: {error}"

    def last_lines(self) -> str:
        """Return the end of what the command has said."""
        return self.log.read_text(errors="replace")[-600:]

    # --- The judgement ----------------------------------------------------------------------------

    def _judge(self) -> list[str]:
        found: list[str] = []
        try:
            check_exact(self.folders)
        except AssertionError as error:
            found.append(f"output is not exact: {str(error)[:300]}")
        staging = self.folders.output / "_staging"
        left = [str(p.relative_to(staging)) for p in staging.rglob("*") if p.is_file() and p.name not in KEPT]
        if left:
            found.append(f"staged files are left: {left}")
        alive = processes_of(self.folders.state)
        if alive:
            found.append(f"processes are left: {alive}")
        traces = re.findall(r"^Traceback .*$", self.log.read_text(errors="replace"), re.MULTILINE)
        if traces:
            found.append(f"a stack trace reached the terminal: {self.last_lines()}")
        return found


def ask_for_more(folders: Folders, over: threading.Event) -> None:
    """Ask the running job for a savepoint and a third worker, as soon as it has committed something."""
    while not over.wait(LOOK_S):
        if not any(folders.output.glob("*.parquet")):
            continue
        try:
            client = connect(folders.state, "wordcount")
        except (PenstockError, OSError):
            continue
        with suppress(PenstockError):  # the fault may take the answer away
            client.savepoint("one")
            client.rescale(3)
        client.close()
        return


def nothing_more(_folders: Folders, _over: threading.Event) -> None:
    """Ask for nothing."""
