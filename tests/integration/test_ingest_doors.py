"""Pushed rows on one machine: only the user of the job can push, by any call."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from penstock.base.errors import ConfigError
from penstock.base.values import replace
from penstock.connectors.announce import (
    SOCKET_SUFFIX,
    Announcement,
    Proof,
    announce,
    dialled,
    finished_note,
    opened,
    read_announcements,
)
from penstock.connectors.ingest import IngestSource
from penstock.contract import codec
from penstock.contract.ids import Epoch
from penstock.contract.trust import IngestPlace
from penstock.model.ingest_messages import WIRE_VERSION, Hello, IngestAnswer, decode_reply
from penstock_spark.push import Push, Pushed, Pusher
from penstock_spark.replay import partitions_of
from tests.integration.cluster_rig import line
from tests.integration.test_ingest import LINE, drain, write

NOBODY = 65_534
ROWS = 500
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")

# Another user of the machine, who knows the address and the protocol, and takes the highest number.
STRANGER = """
import json, os, socket, sys
import pyarrow.flight as fl
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
address, path = sys.argv[1:]
print("user", os.getuid())
try:
    os.listdir(os.path.dirname(path))
    print("LISTED")
except PermissionError:
    print("not listed")
try:
    socket.socket(socket.AF_UNIX).connect(path)
    print("CONNECTED")
except PermissionError:
    print("not connected")
hello = {"is": "Hello", "wire": 1, "partition": 0, "partitions": 1, "sender": 10**15}
client = fl.FlightClient(address)
try:
    writer, reader = client.do_exchange(
        fl.FlightDescriptor.for_command(json.dumps(hello).encode()),
        fl.FlightCallOptions(timeout=20),
    )
    print("HEARD", reader.read_chunk().app_metadata.to_pybytes())
except (fl.FlightError, OSError) as error:
    print("not heard")
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that anybody may enter; pytest's own ones are closed to others already."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-doors-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@AS_ROOT
def test_another_user_neither_pushes_nor_shuts_the_true_sender_out(place: Path) -> None:
    files = write(place / "in", 1, ROWS)
    folder = place / "announce"
    source = IngestSource(1, str(folder), LINE)
    before = os.umask(0)  # the folder has to do without its help
    try:
        reader = source.open(source.splits()[0])
    finally:
        os.umask(before)
    (worker,) = read_announcements(folder)
    path = worker.address.removeprefix("grpc+unix://")
    told = subprocess.run(
        [sys.executable, "-c", STRANGER, worker.address, path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    words = told.stdout.splitlines()
    assert words == ["user 65534", "not listed", "not connected", "not heard"], told
    assert reader.read(10) is None

    push = Push(str(folder), tuple(files), 0, 1, sender=7)
    with ThreadPoolExecutor(1) as pool:
        future: Future[Pushed] = pool.submit(Pusher(push).run)
        assert drain(reader, ROWS, future) == [line(n) for n in range(ROWS)]
        while not reader.state().finished:
            assert reader.read(1000) is None
        reader.committed(Epoch(1), reader.state())
        assert future.result(60).answer == "finished"
    reader.close()


# --- The folder is checked, on both sides -----------------------------------------------------


def open_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o750)


def of_another_user(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)


def a_link(folder: Path) -> None:
    (folder.parent / "mine").mkdir(mode=0o700)
    folder.symlink_to("mine")


def with_a_strangers_socket(folder: Path) -> None:
    """Put a socket of another user into a private folder. It is from before chmod 700, which does not remove it."""
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as planted:
        planted.bind(str(folder / f"evil{SOCKET_SUFFIX}"))
    os.chown(folder / f"evil{SOCKET_SUFFIX}", NOBODY, NOBODY)


def with_a_strangers_link(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    note = finished_note(folder, 0)
    note.symlink_to(folder.parent / "precious")
    os.lchown(note, NOBODY, NOBODY)


FOLDERS = [
    pytest.param(open_to_others, "has mode 0750, .*chmod 700 .*announce", id="open"),
    pytest.param(of_another_user, "belongs to user 65534, and this is", id="foreign", marks=AS_ROOT),
    pytest.param(a_link, "it has to be a folder, no link", id="link"),
    pytest.param(
        with_a_strangers_socket,
        "'evil.sock' in it belongs to user 65534, who was let in",
        id="socket",
        marks=AS_ROOT,
    ),
    pytest.param(
        with_a_strangers_link,
        "'partition-00000.finished' in it belongs to user 65534",
        id="planted link",
        marks=AS_ROOT,
    ),
]


@pytest.mark.parametrize(("prepare", "reason"), FOLDERS)
def test_a_folder_that_others_may_enter_is_refused(
    tmp_path: Path, prepare: Callable[[Path], None], reason: str
) -> None:
    folder = tmp_path / "announce"
    prepare(folder)
    source = IngestSource(1, str(folder), LINE)
    with pytest.raises(ConfigError, match=reason):
        source.open(source.splits()[0])
    with pytest.raises(ConfigError, match=reason):
        Pusher(Push(str(folder), (), 0, 1, sender=1)).run()
    with pytest.raises(ConfigError, match=reason):
        partitions_of(folder, Proof.FOLDER)
    assert not list(tmp_path.glob("**/*.worker.json"))


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        source = IngestSource(1, str(tmp_path / "new" / "announce"), LINE)
        reader = source.open(source.splits()[0])
    finally:
        os.umask(before)
    assert (tmp_path / "new" / "announce").stat().st_mode & 0o777 == 0o700
    reader.close()


def test_a_folder_that_is_put_in_the_place_of_the_checked_one_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "announce"
    source = IngestSource(1, str(folder), LINE)
    reader = source.open(source.splits()[0])
    with opened(folder, Proof.FOLDER) as checked:
        folder.rename(tmp_path / "moved")
        (tmp_path / "other").mkdir()
        (tmp_path / "other").rename(folder)
        assert [a.partitions for a in read_announcements(checked)] == [1]
        reader.close()  # announces that nothing is owned any more
        assert not list(folder.iterdir())


def test_a_sender_dials_only_what_proves_itself(tmp_path: Path) -> None:
    """A port does not show which user of the machine has opened it."""
    for proof in Proof:
        for scheme in ("grpc", "grpc+tls", "grpc+unix"):
            address = f"{scheme}://127.0.0.1:80"
            assert (dialled(address, tmp_path, proof) is not None) is (scheme == proof)
    outside = dialled("grpc+unix:///tmp/evil/x.sock", tmp_path, Proof.FOLDER)
    assert outside == f"grpc+unix://{tmp_path}/x{SOCKET_SUFFIX}"


def test_a_sender_reports_what_it_skipped(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    announce(tmp_path, "evil", Announcement("grpc://127.0.0.1:1", 1, (0,)))
    with pytest.raises(ConfigError, match=r"grpc://127.0.0.1:1 was passed over, .* grpc\+unix:// o"):
        partitions_of(tmp_path, Proof.FOLDER, timeout_s=0.0)


def test_without_certificates_in_a_cluster_a_sender_has_to_say_so(tmp_path: Path) -> None:
    folder = tmp_path / "announce"
    folder.mkdir(mode=0o775)
    source = IngestSource(1, str(folder), LINE)
    source.listen(lambda: None, IngestPlace("127.0.0.1"))
    reader = source.open(source.splits()[0])
    assert partitions_of(folder, Proof.NOTHING) == 1
    push = Push(str(folder), tuple(write(tmp_path / "in", 1, 10)), 0, 1, sender=1, anybody=True)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(Pusher(push).run)
        assert len(drain(reader, 10, future)) == 10
        while not reader.state().finished:
            assert reader.read(10) is None
        reader.committed(Epoch(1), reader.state())
        assert future.result(60).answer == "finished"
    reader.close()


# --- Bad numbers, and too many streams --------------------------------------------------------


def greeted(folder: Path, hello: Hello) -> bytes:
    with opened(folder, Proof.FOLDER) as path:
        (worker,) = read_announcements(path)
        address = dialled(worker.address, path, Proof.FOLDER)
        with fl.FlightClient(address) as client:
            descriptor = fl.FlightDescriptor.for_command(codec.encode(hello))
            _writer, stream = client.do_exchange(descriptor)
            return bytes(stream.read_chunk().app_metadata)


def test_a_sender_number_out_of_range_is_refused(tmp_path: Path) -> None:
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    reader = source.open(source.splits()[0])
    hello = Hello(WIRE_VERSION, 0, 1, 1)
    for sender in (-1, 2**63, 10**400):
        reply = decode_reply(greeted(tmp_path / "announce", replace(hello, sender=sender)))
        assert reply.answer == IngestAnswer.REFUSED
        assert "is out of range" in reply.text
    assert decode_reply(greeted(tmp_path / "announce", hello)).answer == IngestAnswer.TAKEN
    reader.close()


def test_more_streams_than_there_is_room_for_are_refused(tmp_path: Path) -> None:
    source = IngestSource(1, str(tmp_path / "announce"), LINE)
    reader = source.open(source.splits()[0])
    threads = threading.active_count()
    with opened(tmp_path / "announce", Proof.FOLDER) as path:
        (worker,) = read_announcements(path)
        with fl.FlightClient(dialled(worker.address, path, Proof.FOLDER)) as client:
            hello = codec.encode(Hello(WIRE_VERSION, 0, 1, 1))
            streams = [client.do_exchange(fl.FlightDescriptor.for_command(hello)) for _ in range(66)]
            for _, stream in streams:
                assert stream.read_chunk().app_metadata
            # The refusal arrives with the call or with its first answer: gRPC decides which.
            with pytest.raises(pa.ArrowException, match="Concurrent RPC limit exceeded"):
                client.do_exchange(fl.FlightDescriptor.for_command(hello))[1].read_chunk()
            assert threading.active_count() - threads <= 66 * 2 + 8
            for _, stream in streams:
                stream.cancel()
    reader.close()
