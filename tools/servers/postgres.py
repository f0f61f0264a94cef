"""A PostgreSQL server on a free port of the loopback interface, from the programs that are installed.

``initdb`` makes its folder, ``start`` its process. A server that was killed is started again with the same folder and
port. PostgreSQL refuses to run as root, so root starts it as the user ``postgres`` or ``nobody``.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.servers.fetched import ServerMissing
from tools.servers.java_server import LOOPBACK, free_port

START_MAX_S = 60.0
STOP_MAX_S = 30.0
REMEDY = "install PostgreSQL (Debian, Ubuntu: apt install postgresql; macOS: brew install postgresql)"
USER, DATABASE = "penstock", "penstock"
READY = "database system is ready to accept connections"
SETTINGS = {
    "max_connections": "50",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
}


def program(name: str) -> str:
    """Return the path of a program of PostgreSQL. Raises ServerMissing."""
    found = shutil.which(name)
    places = [found] if found else sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))
    if not places:
        raise ServerMissing(f"there is no {name!r} here: {REMEDY}")
    return str(Path(places[-1]).resolve())


class PostgresServer:
    """One server with a folder of its own. Its port stays the same when it is started again."""

    settings: Mapping[str, str] = SETTINGS  # a server for measuring has others

    def __init__(self, password: str, host: str = LOOPBACK) -> None:
        """Make the folder, without a process. The user ``penstock`` owns the database ``penstock``.

        It listens at ``host``, an address of this machine, and takes connections from its networks.

        Raises ServerMissing when there is no PostgreSQL on this machine.
        """
        self._initdb, self._postgres = program("initdb"), program("postgres")
        self._folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self._as_user = _as_user(self._folder)
        self._process: subprocess.Popen[bytes] | None = None
        self.host, self.port = host, free_port(host)
        (self._folder / "password").write_text(password)
        options = ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        words = [self._initdb, "-D", str(self._data), "-U", USER, f"--pwfile={self._folder / 'password'}", *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False, **self._as_user)
        if done.returncode:
            self.remove()
            raise ServerMissing(f"postgres: initdb failed: {(done.stdout + done.stderr)[-2000:].strip()}")
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        self._single(f"CREATE DATABASE {DATABASE}")

    @property
    def uri(self) -> str:
        """Return what a job calls ``uri``."""
        return f"postgresql://{USER}@{self.host}:{self.port}/{DATABASE}"

    @property
    def pid(self) -> int:
        """Return the pid of the running server."""
        assert self._process is not None, "the server is not started"
        return self._process.pid

    def log(self) -> str:
        """Return what the server has written since its last start."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self) -> None:
        """Start the process, and return when it takes connections. Raises ServerMissing when it does not."""
        end, pause = time.monotonic() + START_MAX_S, threading.Event()
        while time.monotonic() < end:
            self._spawn()
            while self._process is not None and self._process.poll() is None and time.monotonic() < end:
                if READY in self.log():
                    return
                pause.wait(0.02)
            self._process = None
            pause.wait(0.2)  # after a kill, its processes hold the shared memory a moment longer
        raise ServerMissing(f"postgres: the server did not start within {START_MAX_S:.0f} s: {self.log()[-2000:]}")

    def stop(self) -> None:
        """End the process properly, by its pid; idempotent."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGINT)  # it ends sessions and then itself
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End the process as a crash does, by its pid; idempotent."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """End the process, and remove its folder."""
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _spawn(self) -> None:
        words = [self._postgres, "-D", str(self._data), "-p", str(self.port), "-k", str(self._folder)]
        settings = [
            word
            for name, value in ({**self.settings} | {"listen_addresses": self.host}).items()
            for word in ("-c", f"{name}={value}")
        ]
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [*words, *settings], stdin=subprocess.DEVNULL, stdout=out, stderr=out, **self._as_user
            )

    def _single(self, statement: str) -> None:
        words = [self._postgres, "--single", "-D", str(self._data), "postgres"]
        subprocess.run(words, input=statement.encode(), capture_output=True, check=True, **self._as_user)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def _log(self) -> Path:
        return self._folder / "log"


def _as_user(folder: Path) -> dict[str, Any]:
    """Give the folder to the user who runs the server, and return how a process becomes that user."""
    folder.chmod(0o755)
    if os.geteuid() != 0:
        return {"cwd": folder}
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"cwd": folder, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
