"""Plain data (parsed YAML or JSON) to a :class:`StreamJob`: strict, all problems at once."""

import re

from penstock.base import limits
from penstock.base.suggest import unknown
from penstock.contract.fields import Field, Kind, Plain, group, text
from penstock.contract.reader import Origin, Reader
from penstock.contract.streamjob import API_VERSION, KIND, Spec, StreamJob
from penstock.contract.streamjob_fields import SPEC

SET = "--set "  # how the place of a value from the command line begins
_DNS_LABEL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_PARAMETER = re.compile(r"\$(\$)?\{([^{}]*)\}")

_METADATA = group(
    "metadata",
    "name and namespace",
    dict,
    text(
        "name",
        "name of the job",
        required=True,
        pattern=_DNS_LABEL,
        rule="a lower-case letter, then letters, digits and -",
        length_max=limits.JOB_NAME_CHARS_MAX,
    ),
    text("namespace", "its namespace", default="default", pattern=_DNS_LABEL, length_max=63),
    *(
        Field(name, Kind.OPEN, "kept by the API server")
        for name in (
            "annotations",
            "creationTimestamp",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "finalizers",
            "generateName",
            "generation",
            "labels",
            "managedFields",
            "ownerReferences",
            "resourceVersion",
            "selfLink",
            "uid",
        )
    ),
    required=True,
)


def _stream_job(*, metadata: dict[str, object], spec: Spec, **_: object) -> StreamJob:
    return StreamJob(str(metadata["name"]), spec, str(metadata["namespace"]))


STREAM_JOB = group(
    "",
    "a stream job",
    _stream_job,
    Field(
        "apiVersion", Kind.CHOICE, f"must be {API_VERSION}", required=True, choices=(API_VERSION,)
    ),
    Field("kind", Kind.CHOICE, f"must be {KIND}", required=True, choices=(KIND,)),
    _METADATA,
    SPEC,
    Field("status", Kind.OPEN, "written by the operator; not read here"),
)


def read_stream_job(plain: Plain, origin: Origin | None = None) -> StreamJob:
    """Build the job from what a YAML or JSON parser returned.

    ``origin`` says where each value was written. Raises ConfigError with every problem, one a
    line, each as ``file:line: path: what is wrong``.
    """
    reader = Reader(origin or Origin())
    job = reader.read(STREAM_JOB, _with_parameters(reader, plain), "")
    reader.done()
    assert isinstance(job, StreamJob), "a reader without problems builds the value"
    return job


def _with_parameters(reader: Reader, plain: Plain) -> Plain:
    """Put the parameters into the texts of ``spec.job.graph``; leave any other shape alone."""
    spec = plain.get("spec") if isinstance(plain, dict) else None
    job = spec.get("job") if isinstance(spec, dict) else None
    if not (isinstance(plain, dict) and isinstance(spec, dict) and isinstance(job, dict)):
        return plain
    given = job.get("parameters")
    parameters = given if isinstance(given, dict) else {}
    filler = _Filler(reader, parameters)
    filled = filler.fill(job.get("graph"), "spec.job.graph")
    if isinstance(job.get("graph"), dict):
        filler.complain_of_unused()
    return {**plain, "spec": {**spec, "job": {**job, "graph": filled}}}


class _Filler:
    """Puts parameters into texts, and remembers which were asked for."""

    def __init__(self, reader: Reader, parameters: dict[str, Plain]) -> None:
        self.reader = reader
        self.parameters = parameters
        self.asked: set[str] = set()

    def fill(self, plain: Plain, path: str) -> Plain:
        if isinstance(plain, dict):
            return {k: self.fill(v, f"{path}.{k}") for k, v in plain.items()}
        if isinstance(plain, list):
            return [self.fill(v, f"{path}[{i}]") for i, v in enumerate(plain)]
        if isinstance(plain, str):
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
