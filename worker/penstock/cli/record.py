"""What ran: the steps, the user's code and the files of a job, kept next to its state.

A later run compares itself with it: whether a job that has finished would come out otherwise now,
and which output files are its own.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.base.errors import ConfigError, PeerError
from penstock.base.values import replace
from penstock.connectors.input_files import folder_names
from penstock.contract import codec
from penstock.contract.codec import Message
from penstock.contract.graph import Connector, Sink, Source, Step

if TYPE_CHECKING:
    from penstock.graph import JobFile
    from penstock.graph.compiled import CompiledJob

FILE = "record.json"
PARAMETERS = "parameters"  # the digest of what the function that builds the job is given
PACE = frozenset({"rate", "batch_rows", "parallelism"})  # they change how fast, never what
_PENSTOCK = Path(__file__).resolve().parent.parent


class Digest(Message, tag="Digest"):
    """The SHA-256 of a step, of a file of user code, or of the parameters of user code."""

    name: str
    sha256: str


class Place(Message, tag="Place"):
    """The absolute path that a step reads or writes.

    For a source, ``stage`` is the stage that reads its splits, and ``by`` has the columns in the names of its folders.
    """

    step: str
    kind: str
    path: str
    stage: int = 0
    by: tuple[str, ...] = ()


class JobRecord(Message, tag="JobRecord"):
    """What a job computes (``steps``, ``code``), and the paths that it reads and writes (``inputs``, ``outputs``).

    ``finished_us`` is when the job finished, wall time in microseconds; None: it has not.
    ``published`` counts the output files of each sink at the end of the newest run, of epochs up
    to ``through``.
    """

    steps: tuple[Digest, ...] = ()
    code: tuple[Digest, ...] = ()
    inputs: tuple[Place, ...] = ()
    outputs: tuple[Place, ...] = ()
    finished_us: int | None = None
    published: tuple[tuple[str, int], ...] = ()
    through: int = 0

    def counting(self, published: Sequence[tuple[str, int]], through: int) -> "JobRecord":
        """Return the record with the output files that are there, up to epoch ``through``."""
        return replace(self, published=tuple(published), through=through)

    def finished(self, time_us: int) -> "JobRecord":
        """Return the record of a job that finished at ``time_us``."""
        return replace(self, finished_us=time_us)


def record_of(job: "CompiledJob", file: "JobFile") -> JobRecord:
    """Describe a compiled job; its user code, if any, was imported by this process."""
    stages = {s.source: int(s.index) for s in job.plan.stages if s.source is not None}
    places = [(step, place) for step in job.graph.steps for place in _places(step, stages)]
    return JobRecord(
        steps=tuple(Digest(s.name, _digest(_what(codec.to_plain(s)))) for s in job.graph.steps),
        code=tuple(_code(job, file)),
        inputs=tuple(p for step, p in places if isinstance(step.parameters, Source)),
        outputs=tuple(p for step, p in places if isinstance(step.parameters, Sink)),
    )


def _what(plain: object) -> object:
    """Leave out of a step what only sets its pace."""
    if isinstance(plain, dict):
        return {k: _what(v) for k, v in plain.items() if k not in PACE}
    return [_what(v) for v in plain] if isinstance(plain, list | tuple) else plain


def _digest(plain: object) -> str:
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _places(step: Step, stages: dict[str, int]) -> Iterator[Place]:
    if isinstance(step.parameters, Source | Sink):
        connector: Connector = step.parameters.connector
        option = "report" if connector.kind == "discard" else "path"
        path = connector.options.get(option)
        if isinstance(path, str):
            at = os.path.abspath(path)  # what a symbolic link means stays its own
            kind = "followed" if connector.options.get("follow") else connector.kind
            by = folder_names(connector.options.get("partition_by")) if isinstance(step.parameters, Source) else ()
            yield Place(step.name, kind, at, stages.get(step.name, 0), by)


def _code(job: "CompiledJob", file: "JobFile") -> Iterator[Digest]:
    if not job.runs_user_code:
        return
    spec = file.job.spec.job
    if spec.graph is None:  # what is built may depend on them, and functions may hold them
        yield Digest(PARAMETERS, _digest([codec.to_plain(spec.parameters), list(spec.args)]))
    if spec.script is not None:
        yield Digest("job.script", _digest(spec.script))
    nodes = [node for stage in job.stages for node in stage.nodes]
    things = [*(n.function for n in nodes), *(n.connector for n in nodes)]
    things += [function for edge in job.edges for function in edge.functions.values()]
    named = {_top(thing) for thing in things if thing is not None}
    for path in sorted(_users_files(file.folders, named)):
        yield Digest(str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def _top(thing: object) -> str:
    """Name the package of a function or object of the user."""
    module = getattr(thing, "__module__", None) or type(thing).__module__
    return str(module).partition(".")[0]


def _users_files(folders: Sequence[Path], named: set[str]) -> set[Path]:
    """List the files of the modules that belong to the user.

    Those below the job's folders, and those of the packages that functions come from, wherever
    they are installed; never what Python, this environment or Penstock brings.
    """
    homes = [folder.resolve() for folder in folders]
    brought = (Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve(), _PENSTOCK)

    @cache  # a process may have thousands of modules, in far fewer folders
    def place(folder: Path) -> tuple[Path, bool]:
        """Return the folder without links, and whether all that is in it is the user's."""
        folder = folder.resolve()
        theirs = any(folder.is_relative_to(home) for home in homes)
        return folder, theirs and not any(folder.is_relative_to(other) for other in brought)

    found = set()
    for name, module in list(sys.modules.items()):
        text = getattr(module, "__file__", None)
        if not isinstance(text, str) or not text.endswith(".py"):
            continue
        path = Path(text)
        folder, theirs = place((path.resolve() if path.is_symlink() else path).parent)
        if (theirs or _is_named(name, named)) and not folder.is_relative_to(_PENSTOCK) and path.is_file():
            found.add(path.resolve())
    return found


def _is_named(module: str, named: set[str]) -> bool:
    top = module.partition(".")[0]
    return top in named and top not in {"builtins", "penstock", "pyarrow"}


def keep_record(folder: Path, record: JobRecord) -> None:
    """Write the record into the job's folder, whole or not at all. Raises ConfigError."""
    staged = folder / f".{FILE}.{os.getpid()}"
    try:
        staged.touch(mode=0o600)
        staged.write_bytes(codec.encode(record))
        staged.replace(folder / FILE)
    except OSError as error:
        raise ConfigError(f"--dir: {folder / FILE}: {error.strerror}") from error


def read_record(folder: Path) -> JobRecord | None:
    """Read the record of the runs before; None where there is none, or it is of another version."""
    try:
        return codec.decode(JobRecord, (folder / FILE).read_bytes())
    except (OSError, PeerError):
        return None
