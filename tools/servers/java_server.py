"""A server that is a process of Java: it listens on a free port of the loopback interface, and is ended by its pid."""

import re
import signal
import socket
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path

from tools.servers.fetched import ServerMissing, fetched, needed

LOOPBACK = "127.0.0.1"
JAVA_MIN = 17
JAVA_REMEDY = f"install Java {JAVA_MIN} or newer (Debian, Ubuntu: apt install openjdk-17-jre-headless)"
START_MAX_S = 120.0
STOP_MAX_S = 30.0
STARTS_MAX = 3  # a free port may be taken by somebody else before the server has it
MEMORY = ("-Xmx320m", "-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


def java() -> str:
    """Return the command of a Java that runs a server. Raises ServerMissing."""
    command = needed("java", JAVA_REMEDY)
    said = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', said)
    if found is None or int(found[1]) < JAVA_MIN:
        raise ServerMissing(f"{command} is no Java {JAVA_MIN}: {JAVA_REMEDY}")
    return command


def free_port(host: str = LOOPBACK) -> int:
    """Return a port of an address of this machine that is free now."""
    with socket.socket() as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


class JavaServer(ABC):
    """One server with its folder. Its ports stay the same when it is started again."""

    port: int
    memory: tuple[str, ...] = MEMORY  # options of Java; a server for measuring has others

    def __init__(self, name: str, version: str, folder: Path, host: str) -> None:
        """Fetch the server, and make its folder. It is to listen at ``host``, an address of this machine.

        Raises ServerMissing when there is none for this machine.
        """
        self._name = name
        self._java = java()
        self._jars = fetched(name, version)
        self._folder = folder
        self.host = host
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def _configure(self) -> None:
        """Choose free ports, and write the settings. Raises ServerMissing."""

    @abstractmethod
    def _words(self) -> list[str]:
        """Return what Java runs: the main class and its arguments."""

    @property
    def pid(self) -> int:
        """Return the pid of the running process."""
        assert self._process is not None, f"{self._name} is not started"
        return self._process.pid

    def log(self) -> str:
        """Return what the server has written."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start the process, and return when it takes connections. Raises ServerMissing when it does not."""
        for last in (*[False] * (STARTS_MAX - 1), True):
            with self._log.open("wb") as out:
                self._process = subprocess.Popen(
                    self._command(*self._words()), stdin=subprocess.DEVNULL, stdout=out, stderr=out
                )
            if self._answers():
                return
            self.kill()
            if last or "Address already in use" not in self.log():
                text = f"{self._name}: it did not start within {START_MAX_S:.0f} s: {self.log()[-2000:]}"
                raise ServerMissing(text)
            self._configure()

    def stop(self) -> None:
        """End the process properly, by its pid; idempotent."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the process as a crash does, by its pid; idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        pause, end = threading.Event(), time.monotonic() + START_MAX_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                socket.create_connection((self.host, self.port), 1.0).close()
            except OSError:
                pause.wait(0.05)
            else:
                return True
        return False

    @property
    def _settings(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "log"

    def _command(self, *words: str) -> list[str]:
        return [self._java, *self.memory, "-cp", f"{self._jars}/*", *words]
