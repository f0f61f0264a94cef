"""Where the workers of an ingest source listen: one small file each, in a folder senders can read.

A file of a worker that is gone leads to a refused dial, never to a wrong answer. What makes both
sides sure of each other is the job's certificates; or, on one machine, that only one user may enter
the folder, where the workers' Unix sockets are, too (:class:`penstock.folders.PrivateFolder`).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path, PurePath

from penstock.base.errors import PeerError
from penstock.contract.codec import parsed
from penstock.folders import PrivateFolder

SUFFIX = ".worker.json"
SOCKET_SUFFIX = ".sock"
SOCKET_SCHEME = "grpc+unix"


class Proof(StrEnum):
    """By what a sender knows that it speaks to the workers of its job: the scheme that it dials.

    ``NOTHING``: of a cluster without mTLS, where that is what the job's owner asked for.
    """

    CERTIFICATES = "grpc+tls"
    FOLDER = SOCKET_SCHEME
    NOTHING = "grpc"


@dataclass(frozen=True, slots=True)
class Announcement:
    """One worker: its address, the number of partitions of the job, those it owns now."""

    address: str
    partitions: int
    owned: tuple[int, ...]


def announce(folder: Path, life: str, announcement: Announcement) -> None:
    """Write or renew the file of one life of a worker; whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{life}"
    temporary.write_text(json.dumps(asdict(announcement)))
    temporary.replace(folder / f"{life}{SUFFIX}")


def finished_note(folder: Path, partition: int) -> Path:
    """Return the file that says that a partition is committed to its end; it holds the end."""
    return folder / f"partition-{partition:05d}.finished"


def socket_address(folder: Path, life: str) -> str:
    """Return the address of one life of a worker that listens in its folder."""
    return f"{SOCKET_SCHEME}://{folder / life}{SOCKET_SUFFIX}"


@contextmanager
def opened(folder: Path, proof: Proof) -> Iterator[Path]:
    """Give the path by which a sender reads what is in ``folder``, and finds its sockets.

    Raises ConfigError when other users may enter a folder that is the proof; a folder that is not
    there yet is empty.
    """
    if proof is not Proof.FOLDER:
        yield folder
        return
    try:
        private = PrivateFolder(folder)
    except FileNotFoundError:
        yield folder
        return
    try:
        yield private.path
    finally:
        private.close()


def dialled(address: str, folder: Path, proof: Proof) -> str | None:
    """Return what to dial for an announced address; None where it offers no such proof.

    A socket is looked for in ``folder``, as :func:`opened` gave it, and nowhere else.
    """
    scheme, _, place = address.partition("://")
    if scheme != proof:
        return None
    return socket_address(folder, PurePath(place).stem) if proof is Proof.FOLDER else address


def read_announcements(folder: Path) -> list[Announcement]:
    """Return what workers have announced, the newest first."""
    found: list[tuple[float, Announcement]] = []
    for file in folder.glob(f"*{SUFFIX}"):
        try:
            plain = parsed(file.read_text())
            owned = tuple(plain["owned"])
            known = Announcement(plain["address"], plain["partitions"], owned)
            found.append((file.stat().st_mtime, known))
        except (OSError, PeerError, ValueError, KeyError, TypeError):
            continue  # it is being replaced: the next look finds it
    return [a for _, a in sorted(found, key=lambda pair: -pair[0])]


def read_owners(folder: Path) -> dict[int, str]:
    """Return who says that it owns a partition; of two, who said it last."""
    owners: dict[int, str] = {}
    for known in reversed(read_announcements(folder)):
        owners.update(dict.fromkeys(known.owned, known.address))
    return owners
