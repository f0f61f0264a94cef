"""Pushed input if workers require certificates: only senders of the job are accepted."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.flight as fl
import pytest

from penstock.connectors.announce import read_announcements
from penstock.connectors.ingest import IngestSource
from penstock.contract import codec
from penstock.contract.ids import Epoch
from penstock.contract.pod import CA_KEY, CERTIFICATE_KEY, PRIVATE_KEY
from penstock.contract.trust import Credentials, IngestPlace
from penstock.model.ingest_messages import WIRE_VERSION, Hello
from penstock_spark.push import STREAM_ERRORS, Push, Pusher
from tests.integration.cluster_rig import line
from tests.integration.test_ingest import LINE, drain, write
from tests.support.certificates import Renewed, also_believing, authority, trust

HOST = "words.default.job.penstock.dev"
ROWS = 500


def listening(folder: Path) -> IngestSource:
    source = IngestSource(1, str(folder), LINE)
    source.listen(lambda: None, IngestPlace("127.0.0.1", trust=trust(HOST)))
    return source


def mounted(folder: Path, shown: Credentials) -> str:
    folder.mkdir()
    for name, text in (
        (CA_KEY, shown.ca),
        (CERTIFICATE_KEY, shown.certificate),
        (PRIVATE_KEY, shown.key),
    ):
        (folder / name).write_bytes(text)
    return str(folder)


def test_a_sender_of_the_job_is_accepted(tmp_path: Path) -> None:
    files = write(tmp_path / "in", 1, ROWS)
    announce = tmp_path / "announce"
    source = listening(announce)
    reader = source.open(source.splits()[0])
    (worker,) = read_announcements(announce)
    assert worker.address.startswith("grpc+tls://")
    shown = mounted(tmp_path / "tls", trust(f"sender.{HOST}"))
    push = Push(str(announce), tuple(files), 0, 1, 1, trust=shown, certificate_host=HOST)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(Pusher(push).run)
        assert drain(reader, ROWS, future) == [line(n) for n in range(ROWS)]
        while not reader.state().finished:
            assert reader.read(1000) is None
        reader.committed(Epoch(1), reader.state())
        assert future.result(60).answer == "finished"
    reader.close()


def without_certificate() -> dict[str, Any]:
    mine = trust(HOST).client_options()
    return {"tls_root_certs": mine["tls_root_certs"], "override_hostname": HOST}


def test_senders_of_both_authorities_are_accepted_during_a_rotation(tmp_path: Path) -> None:
    old, new = authority("old"), authority("new")
    held = Renewed(also_believing(trust(HOST, old), new))
    source = IngestSource(1, str(tmp_path), LINE)
    source.listen(lambda: None, IngestPlace("127.0.0.1", trust=held))
    reader = source.open(source.splits()[0])
    (worker,) = read_announcements(tmp_path)
    hello = codec.encode(Hello(WIRE_VERSION, 0, 1, 1))
    of_before = also_believing(trust(f"sender.{HOST}", old), new).client_options()
    of_now = trust(f"sender.{HOST}", new).client_options()
    asked = {"override_hostname": HOST}

    with fl.FlightClient(worker.address, **(of_before | asked)) as client:
        stream = client.do_exchange(fl.FlightDescriptor.for_command(hello))
        assert stream[1].read_chunk().app_metadata
        held.now = also_believing(trust(HOST, new), old)
        with fl.FlightClient(worker.address, **(of_now | asked)) as joiner:
            later = codec.encode(Hello(WIRE_VERSION, 0, 1, 2))
            assert exchange(joiner, later)
        with fl.FlightClient(worker.address, **(of_before | asked)) as late:
            assert exchange(late, codec.encode(Hello(WIRE_VERSION, 0, 1, 3)))
        stream[0].write_metadata(b"nonsense")
        assert stream[1].read_chunk().app_metadata, "the stream from before the rotation continues"
    reader.close()


STRANGERS: dict[str, Callable[[], dict[str, Any]]] = {
    "without a certificate": without_certificate,
    "of another authority": lambda: trust(HOST, authority("others"), checked_by=authority()).client_options(),
    "expired": lambda: trust(HOST, expired=True).client_options(),
    "that believes another authority": lambda: trust(HOST, checked_by=authority("others")).client_options(),
    "that takes us for another job": lambda: trust(HOST).client_options() | {"override_hostname": f"other.{HOST}"},
}


@pytest.mark.parametrize("who", STRANGERS)
def test_a_sender_of_another_job_is_refused(who: str, tmp_path: Path) -> None:
    not_heard(tmp_path, "grpc+tls", STRANGERS[who]())


def test_a_sender_without_tls_is_refused(tmp_path: Path) -> None:
    not_heard(tmp_path, "grpc", {})


def not_heard(folder: Path, scheme: str, shown: dict[str, Any]) -> None:
    source = listening(folder / "announce")
    reader = source.open(source.splits()[0])
    (worker,) = read_announcements(folder / "announce")
    address = worker.address.replace("grpc+tls", scheme)
    hello = codec.encode(Hello(WIRE_VERSION, 0, 1, 1))
    with fl.FlightClient(address, **shown) as client, pytest.raises(STREAM_ERRORS):
        exchange(client, hello)
    reader.close()


def exchange(client: fl.FlightClient, hello: bytes) -> bytes:
    _writer, stream = client.do_exchange(fl.FlightDescriptor.for_command(hello))
    return bytes(stream.read_chunk().app_metadata)
