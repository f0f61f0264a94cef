"""The engine process: load the job, say hello, carry out commands until told to end.

The process ends when its keeper's socket is closed. Only the keeper handles SIGINT and SIGTERM. The
engine ignores both, so that a Ctrl-C on a terminal cannot end it while the keeper stops in order.
"""

import faulthandler
import gc
import io
import logging
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from penstock.base.errors import ConnectorError, PenstockError, StorageError
from penstock.base.os_errors import storage_error
from penstock.base.threads import Event, Thread, end_process
from penstock.contract.codec import decode
from penstock.contract.control_messages import EngineHello, EngineLaunch, EnginePlace, EngineReport, Shutdown
from penstock.contract.ids import ROOT_SUFFIX
from penstock.contract.status import EngineProgress
from penstock.contract.trust import OF_ONE_USER, IngestPlace
from penstock.engine.memory import keep_freed_memory
from penstock.transport.polling import let_waiting_threads_poll

if TYPE_CHECKING:
    from penstock.cluster.in_flight import InFlightPage
    from penstock.cluster.link import EngineLink
    from penstock.engine.worker import Worker
    from penstock.graph.compiled import CompiledJob
    from penstock.storage.trust import TrustFolder
    from penstock.transport.exchange import Identity
    from penstock.transport.stream import FlightEndpoint

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_JOB = 3  # the job does not load: the last lines of stderr say why
EXIT_LINK = 4  # the keeper is gone
EXIT_STORAGE = 5  # a file of this process, or what a step reads, could not be reached: a later start may succeed
EXIT_CONNECTOR = 6  # a source or sink has failed: a later start may succeed, and each one counts

# Built-in steps compute in kernels that release the interpreter lock, so threads that move bytes get
# it soon, and forced switches only add cost. But a waiting thread checks again only after this
# interval: with the interpreter's own 5 ms, waits of 9 ms were measured.
SWITCH_INTERVAL_S = 0.001
# User code keeps the interpreter lock. A thread that moves bytes waits for the lock at least this long. With a
# busy thread on two loaded cores, this value lowered the 90th percentile of a wake-up from 19 ms to 7 ms.
USER_CODE_SWITCH_INTERVAL_S = 0.0002
# So many more objects than before live when the collector looks for cycles. A client of Kafka makes 20,000 records at
# a time: with the interpreter's own 700, looking among them took a quarter of the time of a read.
COLLECTED_AFTER_OBJECTS = 100_000


def main(arguments: list[str]) -> NoReturn:
    """Run the engine named by a launch file."""
    run(decode(EngineLaunch, Path(arguments[0]).read_bytes()))


def run(launch: EngineLaunch) -> NoReturn:
    """Run an engine in this process, which ends with it: exit status as above."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        _set_up(launch)
        from penstock.cluster.link import EngineLink  # noqa: PLC0415 - after the settings

        link = EngineLink.connect(launch.socket)
        worker = begin(launch, link, _load(launch))
        status = obey(worker, launch, link)
    except PenstockError as error:
        print(error, file=sys.stderr, flush=True)
        status = exit_status(error, Path(launch.storage))
    sys.stdout.flush()
    sys.stderr.flush()
    # A normal exit would wait for threads that are blocked in foreign calls.
    end_process(status)


def exit_status(error: PenstockError, storage: Path) -> int:
    """Return the exit status of an engine that could not start. ``storage`` is the folder of the job's checkpoints.

    A table that is not there may come back, but a job without a checkpoint has seen none (decision 206).
    """
    from penstock.connectors.missing import NotThere  # noqa: PLC0415 - after the settings

    if isinstance(error, NotThere) and not _has_checkpoint(storage):
        return EXIT_JOB
    if isinstance(error, StorageError):
        return EXIT_CONNECTOR if isinstance(error, ConnectorError) else EXIT_STORAGE
    return EXIT_JOB


def _has_checkpoint(storage: Path) -> bool:
    """Return whether the job may have a checkpoint. One that was not committed counts, too."""
    try:
        return any(name.endswith(ROOT_SUFFIX) for name in os.listdir(storage))
    except OSError:
        return True  # nobody knows


def _set_up(launch: EngineLaunch) -> None:
    log_to(sys.stderr, launch.ordinal)
    say_at_once()
    set_up_process()
    # At a fatal signal the interpreter prints the line it was in; the keeper passes that on.
    faulthandler.enable(all_threads=False)
    empty_scratch(launch)


def say_at_once() -> None:
    """Write each line that a user function prints at once, and in one piece.

    A buffered line would be lost with the process. A line in pieces (as with PYTHONUNBUFFERED)
    would mix with lines that others write to the same log.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def log_to(stream: TextIO, ordinal: int) -> logging.Handler:
    """Log the engine's messages to ``stream`` only; return the handler."""
    handler = logging.StreamHandler(stream)
    text = f"%(asctime)s worker={ordinal} part=engine level=%(levelname)s %(message)s"
    handler.setFormatter(logging.Formatter(text))
    ours = logging.getLogger("penstock")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    return handler


def empty_scratch(launch: EngineLaunch) -> None:
    """Make an empty folder for the files of this process.

    Raises ConfigError when this user may not make it; StorageError when a retry may help.
    """
    shutil.rmtree(launch.scratch, ignore_errors=True)
    try:
        Path(launch.scratch).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(f"cannot make the scratch folder {launch.scratch}", error) from error


def set_up_process() -> None:
    """Set what holds for the whole process of an engine, before it uses Flight."""
    keep_freed_memory()
    let_waiting_threads_poll()


def switch_interval_s(job: "CompiledJob") -> float:
    """Return after how long a thread has to hand the interpreter over, if another wants it."""
    return USER_CODE_SWITCH_INTERVAL_S if job.runs_user_code else SWITCH_INTERVAL_S


def _doors(place: EnginePlace, trust: "TrustFolder | None") -> "tuple[FlightEndpoint, IngestPlace]":
    """Return where peers connect, and where senders of pushed rows connect."""
    from penstock.transport.stream import FlightEndpoint  # noqa: PLC0415

    peers = FlightEndpoint(place.host, place.port, place.advertised, trust)
    if not place.ingest_port:  # on one machine there is no fixed port, and no certificate
        return peers, OF_ONE_USER
    return peers, IngestPlace(place.host, place.ingest_port, trust)


def _trust(place: EnginePlace) -> "TrustFolder | None":
    from penstock.storage.trust import TrustFolder  # noqa: PLC0415

    return None if place.trust is None else TrustFolder(Path(place.trust), place.certificate_host)


def _watch(trust: "TrustFolder", worker: "Worker") -> None:
    """Take renewed certificates as soon as they are mounted."""
    from penstock.storage.trust import TrustWatch  # noqa: PLC0415

    def taken() -> None:
        worker.renew()
        log.info("event=certificates_renewed")

    def refused(reason: str) -> None:
        log.error("event=certificates_refused reason=%s", reason)

    TrustWatch(trust, taken, refused).start()


def _identity(launch: EngineLaunch) -> "Identity":
    from penstock.transport.exchange import Identity  # noqa: PLC0415

    return Identity(launch.job_uid, launch.ordinal, launch.incarnation)


def _page(launch: EngineLaunch) -> "InFlightPage | None":
    """Make the page that outlives this process, if its keeper reads one."""
    from penstock.cluster.in_flight import InFlightPage  # noqa: PLC0415

    try:
        return InFlightPage(Path(launch.page), launch.incarnation) if launch.page else None
    except OSError as error:
        raise storage_error(f"cannot make the file {launch.page}", error) from error


def _load(launch: EngineLaunch) -> "CompiledJob":
    from penstock.connectors.open_connectors import ConnectorInspector  # noqa: PLC0415
    from penstock.graph import load_job  # noqa: PLC0415

    job = load_job(launch.job_file, ConnectorInspector())
    # After the user's modules: a logging configuration of the user is kept.
    text = f"%(asctime)s worker={launch.ordinal} level=%(levelname)s logger=%(name)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=text)
    return job


def begin(launch: EngineLaunch, link: "EngineLink", job: "CompiledJob") -> "Worker":
    """Make the worker of a job, and say hello. Raises PenstockError when the job cannot run."""
    from penstock.cluster.link import LinkClosed  # noqa: PLC0415
    from penstock.cluster.system import SystemClock  # noqa: PLC0415
    from penstock.engine.build import JobParts  # noqa: PLC0415
    from penstock.engine.warm import warm_rest  # noqa: PLC0415
    from penstock.engine.worker import Worker  # noqa: PLC0415
    from penstock.storage.blobs import DirectoryBlobStore  # noqa: PLC0415

    trust = _trust(launch.place)
    endpoint, ingest = _doors(launch.place, trust)
    sys.setswitchinterval(switch_interval_s(job))
    scratch, shared = Path(launch.scratch), Path(launch.storage)
    parts = JobParts(job, _identity(launch), scratch, _page(launch), shared=shared)

    def say(report: EngineReport | EngineProgress) -> None:
        with suppress(LinkClosed):  # the main loop notices, and ends
            link.send(report)

    warmed = Event()
    worker = Worker(
        launch.ordinal,
        launch.incarnation,
        parts,
        DirectoryBlobStore(Path(launch.storage)),
        say=say,
        clock=SystemClock(),
        heartbeat_interval_s=launch.heartbeat_interval_s,
        warmed=warmed,
        endpoint=endpoint,
        ingest=ingest,
    )
    if trust is not None:
        _watch(trust, worker)
    parts.warm()
    # Loaded objects live as long as the process, so the collector need not examine them.
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER_OBJECTS)
    gc.enable()
    say(EngineHello(launch.ordinal, launch.incarnation, worker.address, job.plan))
    Thread(target=warm_rest, args=(warmed,), name="warm", daemon=True).start()
    return worker


def obey(worker: "Worker", launch: EngineLaunch, link: "EngineLink") -> int:
    """Carry out commands until a shutdown, or until the keeper is gone. Returns the exit status."""
    from penstock.cluster.link import LinkClosed  # noqa: PLC0415

    try:
        while True:
            told = link.receive()
            if isinstance(told.command, Shutdown):
                if told.command.incarnation != launch.incarnation:
                    continue  # meant for the engine before this one
                log.info("event=shutdown reason=%s", told.command.reason)
                worker.close()
                return EXIT_OK
            worker.command(told.term, told.command)
    except LinkClosed:
        return EXIT_LINK
