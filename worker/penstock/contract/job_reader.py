"""Plain data (parsed YAML or JSON) to a :class:`StreamJob`: strict, with all problems at once.

``--set path=value`` replaces one value of the plain data before it is read. Paths begin below
``spec``: ``job.parameters.input``, ``checkpoint.interval``, ``job.graph.steps[lines].parallelism``
(an item by its name or its number). The row of the field says which type the text has.
"""

import re
from collections.abc import Iterator

from penstock.base.errors import ConfigError, PeerError
from penstock.base.suggest import unknown
from penstock.contract.codec import parsed
from penstock.contract.declared_graph import GRAPH
from penstock.contract.reader import Origin, Reader
from penstock.contract.schema import FieldRow, Kind, Plain
from penstock.contract.streamjob import SPEC, STREAM_JOB, StreamJob

SET = "--set "  # the place of a value from the command line begins with it
_PARAMETER = re.compile(r"\$(\$)?\{([^{}]*)\}")


def read_stream_job(plain: Plain, origin: Origin | None = None, *, cluster: bool = False) -> StreamJob:
    """Build the job from what a YAML or JSON parser returned.

    ``origin`` says where each value was written. With ``cluster`` the fields that a cluster needs
    must be there, too: then the API server accepts the job. Raises ConfigError with every problem,
    one a line, each as ``file:line: path: what is wrong``.
    """
    reader = Reader(origin or Origin(), cluster=cluster)
    return reader.whole(StreamJob, STREAM_JOB, _with_parameters(reader, plain))


def cluster_only(plain: Plain) -> tuple[str, ...]:
    """List the fields of a StreamJob that a run on one machine ignores, in the file's order."""
    spec = plain.get("spec") if isinstance(plain, dict) else None
    return tuple(_given(SPEC, spec, "spec"))


def _given(row: FieldRow, plain: Plain, path: str) -> Iterator[str]:
    rows = {f.name: f for f in row.fields}
    for name, value in plain.items() if isinstance(plain, dict) else ():
        child = rows.get(name)
        if child is not None and child.cluster:
            yield f"{path}.{name}"
        elif child is not None and child.kind is Kind.OBJECT:
            yield from _given(child, value, f"{path}.{name}")


def _with_parameters(reader: Reader, plain: Plain) -> Plain:
    """Put the parameters into the texts of ``spec.job.graph``; return other data as it is."""
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
    """Puts parameters into texts, and remembers which parameters the texts used."""

    def __init__(self, reader: Reader, parameters: dict[str, Plain]) -> None:
        self.reader = reader
        self.parameters = parameters
        self.used: set[str] = set()

    def fill(self, row: FieldRow, plain: Plain, path: str) -> Plain:
        """Fill texts, durations and quantities. Other values stay as they are."""
        match row.kind, plain:
            case Kind.OBJECT, dict():
                rows = {f.name: f for f in row.fields}
                return {k: self.fill(rows[k], v, f"{path}.{k}") if k in rows else v for k, v in plain.items()}
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
        self.used.add(name)
        if name not in self.parameters:
            self.reader.complain(path, unknown("parameter", name, self.parameters))
            return ""
        return str(self.parameters[name])

    def complain_of_unused(self) -> None:
        """Refuse a parameter of ``--set`` that no text uses: it is misspelt."""
        for name in self.parameters:
            path = f"spec.job.parameters.{name}"
            if name not in self.used and self.reader.origin.at(path).startswith(SET):
                text = f"no step uses it; {unknown('parameter', name, self.used)}"
                self.reader.complain(path, text)


# --- ``--set path=value`` ---------------------------------------------------------------------

_PART = re.compile(r"([^.\[\]]+)|\[([^\]]+)\]")


def override(plain: Plain, setting: str) -> tuple[Plain, str]:
    """Return the data with one value set, and the path that it has in error messages.

    Raises ConfigError for a setting without ``=``, an unknown path, or a text of the wrong type.
    """
    path, equals, value = setting.partition("=")
    if not equals or not path.strip():
        raise ConfigError(f"--set {setting}: write path=value, like job.parameters.input=data")
    parts = _parts(path.strip(), setting)
    if parts[0] not in ("metadata", "spec"):
        parts = ["spec", *parts]
    return _put(plain, STREAM_JOB, parts, value, _Setting(setting))


class _Setting:
    """One setting: what was typed, and the part of its path that was followed so far."""

    def __init__(self, typed: str) -> None:
        self.typed = typed
        self.done = ""

    def error(self, text: str) -> ConfigError:
        return ConfigError(f"--set {self.typed}: {text}")


def _parts(path: str, setting: str) -> list[str]:
    parts = [m[1] if m[1] is not None else f"[{m[2]}]" for m in _PART.finditer(path)]
    if "".join(p if p.startswith("[") else "." + p for p in parts).lstrip(".") != path:
        raise ConfigError(f"--set {setting}: {path!r} is no path")
    return parts


def _put(plain: Plain, row: FieldRow, parts: list[str], value: str, at: _Setting) -> tuple[Plain, str]:
    if not parts:
        return _typed(row, value, at), at.done
    if row.kind is Kind.LIST:
        return _put_item(plain, row, parts, value, at)
    part = parts[0]
    fields = {f.name: f for f in row.fields}
    if row.kind is Kind.OBJECT and part not in fields:
        raise at.error(f"{unknown('field', part, fields)}" + (f" (in {at.done})" if at.done else ""))
    if row.kind not in (Kind.OBJECT, Kind.TEXT_MAP, Kind.OPEN):
        raise at.error(f"{at.done} is a value ({row.kind}) and has no field {part!r}")
    child = fields.get(part, FieldRow(part, Kind.OPEN if row.kind is Kind.OPEN else Kind.TEXT, ""))
    at.done = f"{at.done}.{part}" if at.done else part
    old = plain if isinstance(plain, dict) else {}
    new, path = _put(old.get(part), child, parts[1:], value, at)
    return {**old, part: new}, path


def _put_item(plain: Plain, row: FieldRow, parts: list[str], value: str, at: _Setting) -> tuple[Plain, str]:
    items = list(plain) if isinstance(plain, list) else []
    index = _index(items, row, parts[0], at)
    at.done = f"{at.done}[{index}]"
    item = FieldRow("", Kind.OBJECT if row.fields else Kind.TEXT, row.meaning, fields=row.fields)
    items[index], path = _put(items[index], item, parts[1:], value, at)
    return items, path


def _index(items: list[Plain], row: FieldRow, part: str, at: _Setting) -> int:
    label = part.strip("[]")
    names = [str(i.get(row.key)) if row.key and isinstance(i, dict) else "" for i in items]
    if label in names:
        return names.index(label)
    if not label.isdigit():
        raise at.error(f"{unknown('item', label, [n for n in names if n])} (in {at.done})")
    if int(label) >= len(items):
        raise at.error(f"{at.done} has {len(items)} items; there is no [{label}]")
    return int(label)


def _typed(row: FieldRow, value: str, at: _Setting) -> Plain:
    match row.kind:
        case Kind.INTEGER | Kind.NUMBER | Kind.BOOLEAN | Kind.OBJECT | Kind.LIST | Kind.TEXT_MAP:
            return _json(row, value, at)
        case Kind.OPEN:
            return _json_or_text(value)
        case _:
            return value


def _json(row: FieldRow, value: str, at: _Setting) -> Plain:
    try:
        found: Plain = parsed(value)
    except PeerError:
        kinds = {
            Kind.INTEGER: "a whole number",
            Kind.NUMBER: "a number",
            Kind.BOOLEAN: "true or false",
        }
        raise at.error(f"expected {kinds.get(row.kind, 'JSON')}, got {value!r}") from None
    return found


def _json_or_text(value: str) -> Plain:
    try:
        found: Plain = parsed(value)
    except PeerError:
        return value
    return found
