"""Another engine for a comparison: its description, its environment, and one run of its program."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import processes
from tools.servers.fetched import ServerMissing, fetched

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(__file__).parent / "peers"
HOME = ROOT / ".bench"  # environments; delete the folder to create them again
INSTALLER = "uv"  # pip needs minutes to resolve the dependencies of some engines
RUN_TIMEOUT_S = 170.0
SAMPLE_INTERVAL_S = 0.5
LAST_LINES_CHARS = 3000


@dataclass(frozen=True, slots=True)
class Peer:
    """One engine. ``rows`` is chosen so that a run takes about ten seconds.

    ``inputs`` are the files it reads (lines, parquet) where it does not make rows from the block;
    ``shares`` names the engine whose environment it uses, ``jars`` a set of ``tools/servers`` that it loads beside.
    With a ``lock``, its environment is what this file has, with hashes.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    program: str
    rows: int
    emits: str
    checkpoints: str
    set_up: str
    inputs: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    java: bool = False
    shares: str | None = None
    jars: str | None = None
    lock: Path | None = None

    @property
    def home(self) -> Path:
        """The folder of its environment."""
        return HOME / (self.shares or self.name)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a program printed, its CPU time, and the peak memory of all its processes."""

    counts: dict[str, int]
    marks: list[tuple[float, float]]
    emitted: int
    memory_max: int
    cpu_s: float
    seconds: float


class PeerError(Exception):
    """An engine could not be installed, or failed. The message has the end of its output."""


def names(folder: Path = FOLDER) -> list[str]:
    """List the engines that are known."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load(name: str, folder: Path = FOLDER) -> Peer:
    """Read an engine's file. Raises SystemExit naming the known ones."""
    path = folder / f"{name}.toml"
    if not path.exists():
        raise SystemExit(f"unknown engine {name!r}: known are {', '.join(names(folder))}")
    plain = tomllib.loads(path.read_text())
    for key in ("packages", "inputs"):
        plain[key] = tuple(plain.get(key, ()))
    lock = path.with_suffix(".lock")
    return Peer(name=name, lock=lock if lock.exists() else None, **plain)


# --- Its environment ------------------------------------------------------------------------


def install(peer: Peer) -> dict[str, str]:
    """Create the environment if it is missing, and return the versions in it. Raises PeerError."""
    marker = peer.home / "installed"
    given = ["--require-hashes", "-r", str(peer.lock)] if peer.lock else peer.packages
    text = peer.lock.read_text() if peer.lock else " ".join(peer.packages)
    wanted = hashlib.sha256(text.encode()).hexdigest()
    if not marker.exists() or marker.read_text() != wanted:
        print(f"   installing {', '.join(peer.packages)} into {peer.home}", flush=True)
        shutil.rmtree(peer.home, ignore_errors=True)
        _call([sys.executable, "-m", "venv", str(peer.home)], peer)
        python = str(_python(peer))
        pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input"]
        _call([*pip, "install", INSTALLER], peer)
        _call([python, "-m", "uv", "pip", "install", "--python", python, *given], peer)
        marker.write_text(wanted)
    if peer.program.endswith(".java"):
        _compile(peer)
    return _versions(peer)


def _python(peer: Peer) -> Path:
    return peer.home / "bin" / "python"


def _classes(peer: Peer) -> Path:
    return peer.home / "classes"


def _jars(peer: Peer) -> str:
    found = sorted(peer.home.glob("lib/python*/site-packages/pyflink/lib/*.jar"))
    if peer.jars is not None:
        name, _, version = peer.jars.partition("-")
        try:
            found += sorted(fetched(name, version).glob("*.jar"))
        except ServerMissing as error:
            raise PeerError(f"{peer.name}: {error}") from error
    return os.pathsep.join([str(_classes(peer)), *map(str, found)])


def _compile(peer: Peer) -> None:
    _classes(peer).mkdir(exist_ok=True)
    source = FOLDER / "programs" / peer.program
    # Compiled before anything is measured: a second is nothing here, and it is never out of date.
    _call(["javac", "-cp", _jars(peer), "-d", str(_classes(peer)), str(source)], peer)


def _versions(peer: Peer) -> dict[str, str]:
    listed = _call([str(_python(peer)), "-m", "pip", "list", "--format=json"], peer)
    wanted = {package.partition("==")[0] for package in peer.packages}
    found = {p["name"]: p["version"] for p in json.loads(listed) if p["name"] in wanted}
    if peer.java:
        told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
        found["java"] = (told.stderr.splitlines() or ["none"])[0]
    return found


def _call(command: list[str], peer: Peer) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except FileNotFoundError as error:
        raise PeerError(f"{peer.name}: {command[0]} is not installed") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr or error.stdout)[-LAST_LINES_CHARS:]
        raise PeerError(f"{peer.name}: {' '.join(command[:4])} failed:\n{last}") from error
    return done.stdout


# --- A run ----------------------------------------------------------------------------------


def run(peer: Peer, folder: Path, splits: int, checkpoint_s: float) -> Answer:
    """Run the program over the task in ``folder``. Raises PeerError."""
    begun = time.monotonic()
    log_file = folder / "log"
    with log_file.open("w") as log:
        process = subprocess.Popen(
            command(peer, folder, splits, checkpoint_s),
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **peer.environment, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        watch = Watch(process.pid)
        try:
            code = process.wait(RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            code = -1
        finally:
            watch.end(process)
    answer = folder / "answer.json"
    if code or not answer.exists():
        last = log_file.read_text(errors="replace")[-LAST_LINES_CHARS:]
        raise PeerError(f"{peer.name} ended with {code}:\n{last}")
    plain: dict[str, Any] = json.loads(answer.read_text())
    marks = [(float(at), float(rows)) for at, rows in plain["marks"]]
    seconds = time.monotonic() - begun
    return Answer(plain["counts"], marks, plain["emitted"], watch.memory_max, watch.cpu_s, seconds)


def command(peer: Peer, folder: Path, splits: int, checkpoint_s: float) -> list[str]:
    """Return the command line of a run."""
    if peer.program.endswith(".java"):
        return program(peer, [str(folder), str(peer.rows), str(splits), str(round(1000 * checkpoint_s))])
    return program(peer, [str(folder)])


def program(peer: Peer, given: list[str]) -> list[str]:
    """Return the command line of its program with arguments."""
    if peer.program.endswith(".java"):
        name = peer.program.removesuffix(".java")
        return ["java", "-Xmx3g", *_JAVA_OPENS, "-cp", _jars(peer), name, *given]
    return [str(_python(peer)), "-m", f"bench.peers.programs.{peer.program}", *given]


_JAVA_OPENS = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util", "nio", "time")]


class Watch:
    """Samples the memory and the CPU of a process and all its descendants."""

    def __init__(self, pid: int) -> None:
        """Start to sample."""
        self.memory_max = 0
        self.cpu_s = 0.0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self, process: "subprocess.Popen[bytes]") -> None:
        """Stop, and end all processes that the process has left running."""
        self._over.set()
        self._thread.join()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _look(self) -> None:
        while not self._over.wait(SAMPLE_INTERVAL_S):
            pids = processes.tree(self._pid)
            self.memory_max = max(self.memory_max, processes.resident_bytes(pids))
            self.cpu_s = max(self.cpu_s, processes.cpu_s(pids))
