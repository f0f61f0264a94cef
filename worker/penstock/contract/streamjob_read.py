"""Plain data (parsed YAML or JSON) to a :class:`StreamJob`: strict, all problems at once."""

import re
from collections.abc import Iterator

from penstock.base import limits
from penstock.base.suggest import unknown
from penstock.contract.graph_fields import GRAPH
from penstock.contract.reader import Origin, Reader
from penstock.contract.schema import DNS_LABEL, Kind, Plain, Row, document, text
from penstock.contract.streamjob import KIND, StreamJob
from penstock.contract.streamjob_fields import SPEC

SET = "--set "  # how the place of a value from the command line begins
_PARAMETER = re.compile(r"\$(\$)?\{([^{}]*)\}")

_NAME = text(
    "name",
    "name of the job",
    pattern=DNS_LABEL,
    rule="a lower-case letter, then letters, digits and -",
    length_max=limits.JOB_NAME_CHARS_MAX,
)
STREAM_JOB = document(KIND, "a stream job", _NAME, SPEC, StreamJob)


def read_stream_job(
    plain: Plain, origin: Origin | None = None, *, cluster: bool = False
) -> StreamJob:
    """Build the job from what a YAML or JSON parser returned.

    ``origin`` says where each value was written; ``cluster`` asks for what only a cluster needs,
    so that the API server takes what is accepted here. Raises ConfigError with every problem, one
    a line, each as ``file:line: path: what is wrong``.
    """
    reader = Reader(origin or Origin(), cluster=cluster)
    return reader.whole(StreamJob, STREAM_JOB, _with_parameters(reader, plain))


def cluster_only(plain: Plain) -> tuple[str, ...]:
    """List the fields of a StreamJob that a run on one machine ignores, in the file's order."""
    spec = plain.get("spec") if isinstance(plain, dict) else None
    return tuple(_given(SPEC, spec, "spec"))


def _given(row: Row, plain: Plain, path: str) -> Iterator[str]:
    rows = {f.name: f for f in row.fields}
    for name, value in plain.items() if isinstance(plain, dict) else ():
        child = rows.get(name)
        if child is not None and child.cluster:
            yield f"{path}.{name}"
        elif child is not None and child.kind is Kind.OBJECT:
            yield from _given(child, value, f"{path}.{name}")


def _with_parameters(reader: Reader, plain: Plain) -> Plain:
    """Put the parameters into the texts of ``spec.job.graph``; leave any other shape alone."""
    spec = plain.get("spec") if isinstance(plain, dict) else None
    job = spec.get("job") if isinstance(spec, dict) else None
    if not (isinstance(plain, dict) and isinstance(spec, dict) and isinstance(job, dict)):
        return plain
    given = job.get("parameters")
    parameters = given if isinstance(given, dict) else {}
    filler = _Filler(reader, parameters)
    filled = filler.fill(GRAPH, job.get("graph"), "spec.job.graph")
    if isinstance(job.get("graph"), dict):
        filler.complain_of_unused()
    return {**plain, "spec": {**spec, "job": {**job, "graph": filled}}}


class _Filler:
    """Puts parameters into texts, and remembers which were asked for."""

    def __init__(self, reader: Reader, parameters: dict[str, Plain]) -> None:
        self.reader = reader
        self.parameters = parameters
        self.asked: set[str] = set()

    def fill(self, row: Row, plain: Plain, path: str) -> Plain:
        """Fill the texts, durations and quantities; choices and names of items stay."""
        match row.kind, plain:
            case Kind.OBJECT, dict():
                rows = {f.name: f for f in row.fields}
                return {
                    k: self.fill(rows[k], v, f"{path}.{k}") if k in rows else v
                    for k, v in plain.items()
                }
            case Kind.LIST, list():
                item = row.item()
                return [self.fill(item, v, f"{path}[{i}]") for i, v in enumerate(plain)]
            case Kind.TEXT | Kind.DURATION_US | Kind.QUANTITY, str():
                return _PARAMETER.sub(lambda m: self._value(m, path), plain)
        return plain

    def _value(self, match: re.Match[str], path: str) -> str:
        if match[1]:  # $${name} is the text ${name}
            return match[0][1:]
        name = match[2]
        self.asked.add(name)
        if name not in self.parameters:
            self.reader.complain(path, unknown("parameter", name, self.parameters))
            return ""
        return str(self.parameters[name])

    def complain_of_unused(self) -> None:
        """Refuse a parameter of ``--set`` that no text asks for: it is misspelt."""
        for name in self.parameters:
            path = f"spec.job.parameters.{name}"
            if name not in self.asked and self.reader.origin.at(path).startswith(SET):
                text = f"no step uses it; {unknown('parameter', name, self.asked)}"
                self.reader.complain(path, text)
