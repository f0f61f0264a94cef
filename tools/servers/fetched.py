"""Packages of Maven: fetched once by Maven, and every file checked against its hash.

``NAME.xml`` lists what is wanted, and ``NAME.sha256`` the hash of every file that comes of it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build" / "servers"
FETCH_MAX_S = 600.0


class ServerMissing(Exception):
    """A server cannot be had on this machine. The text says what is missing, and how to install it."""


def locked(name: str) -> dict[str, str]:
    """Return the SHA-256 of each file of ``name``."""
    lines = (HERE / f"{name}.sha256").read_text().splitlines()
    return {file: digest for digest, file in (line.split() for line in lines)}


def needed(command: str, remedy: str) -> str:
    """Return the path of a command. Raises ServerMissing."""
    found = shutil.which(command)
    if found is None:
        raise ServerMissing(f"there is no {command!r} here: {remedy}")
    return found


def fetched(name: str, version: str) -> Path:
    """Return the folder with all files of ``name``, after fetching them if they are not there.

    Takes about 20 s and 45 MB the first time. Two processes may call it at once. Raises ServerMissing.
    """
    folder, wanted = CACHE / f"{name}-{version}", locked(name)
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if wrong(folder, wanted):
            _fetch(name, folder)
            if differ := wrong(folder, wanted):
                raise ServerMissing(f"{name}: what was fetched is not what {name}.sha256 says: {', '.join(differ)}")
    return folder


def wrong(folder: Path, wanted: Mapping[str, str]) -> list[str]:
    """List the files of a folder that are missing, altered or not wanted."""
    there = {file.name for file in folder.glob("*")} if folder.is_dir() else set()
    altered = {n for n in there & set(wanted) if hashlib.sha256((folder / n).read_bytes()).hexdigest() != wanted[n]}
    return sorted(there ^ set(wanted) | altered)


def _fetch(name: str, folder: Path) -> None:
    maven = needed("mvn", "install Maven (Debian, Ubuntu: apt install maven; macOS: brew install maven)")
    print(f"# {name}: Maven fetches it, once", file=sys.stderr, flush=True)  # it is silent for 20 s and more
    shutil.rmtree(folder, ignore_errors=True)
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    command = [maven, "--batch-mode", "--quiet", "--file", str(HERE / f"{name}.xml"), *goal]
    environment = {**os.environ, "MAVEN_OPTS": "-Xmx256m"}
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=FETCH_MAX_S,
        env=environment,
    )
    if done.returncode:
        raise ServerMissing(f"{name}: Maven could not fetch it: {(done.stdout + done.stderr)[-2000:].strip()}")
