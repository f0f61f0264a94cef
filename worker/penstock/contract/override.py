"""``--set path=value``: one value of the plain data replaced before it is read.

Paths are those of the file, from ``spec`` on: ``job.parameters.input``, ``checkpoint.interval``,
``job.graph.steps[lines].parallelism`` (an item by its name or its number). The table of fields
says which type the text has.
"""

import re

from penstock.base.errors import ConfigError, PeerError
from penstock.base.suggest import unknown
from penstock.contract.codec import parsed
from penstock.contract.schema import Kind, Plain, Row
from penstock.contract.streamjob_read import STREAM_JOB

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
    """The setting under way: what was typed, and how far the path has come."""

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


def _put(plain: Plain, row: Row, parts: list[str], value: str, at: _Setting) -> tuple[Plain, str]:
    if not parts:
        return _typed(row, value, at), at.done
    if row.kind is Kind.LIST:
        return _put_item(plain, row, parts, value, at)
    part = parts[0]
    fields = {f.name: f for f in row.fields}
    if row.kind is Kind.OBJECT and part not in fields:
        raise at.error(
            f"{unknown('field', part, fields)}" + (f" (in {at.done})" if at.done else "")
        )
    if row.kind not in (Kind.OBJECT, Kind.TEXT_MAP, Kind.OPEN):
        raise at.error(f"{at.done} is a value ({row.kind}) and has no field {part!r}")
    child = fields.get(part, Row(part, Kind.OPEN if row.kind is Kind.OPEN else Kind.TEXT, ""))
    at.done = f"{at.done}.{part}" if at.done else part
    old = plain if isinstance(plain, dict) else {}
    new, path = _put(old.get(part), child, parts[1:], value, at)
    return {**old, part: new}, path


def _put_item(
    plain: Plain, row: Row, parts: list[str], value: str, at: _Setting
) -> tuple[Plain, str]:
    items = list(plain) if isinstance(plain, list) else []
    index = _index(items, row, parts[0], at)
    at.done = f"{at.done}[{index}]"
    item = Row("", Kind.OBJECT if row.fields else Kind.TEXT, row.meaning, fields=row.fields)
    items[index], path = _put(items[index], item, parts[1:], value, at)
    return items, path


def _index(items: list[Plain], row: Row, part: str, at: _Setting) -> int:
    label = part.strip("[]")
    names = [str(i.get(row.key)) if row.key and isinstance(i, dict) else "" for i in items]
    if label in names:
        return names.index(label)
    if not label.isdigit():
        raise at.error(f"{unknown('item', label, [n for n in names if n])} (in {at.done})")
    if int(label) >= len(items):
        raise at.error(f"{at.done} has {len(items)} items; there is no [{label}]")
    return int(label)


def _typed(row: Row, value: str, at: _Setting) -> Plain:
    match row.kind:
        case Kind.INTEGER | Kind.NUMBER | Kind.BOOLEAN | Kind.OBJECT | Kind.LIST | Kind.TEXT_MAP:
            return _json(row, value, at)
        case Kind.OPEN:
            return _json_or_text(value)
        case _:
            return value


def _json(row: Row, value: str, at: _Setting) -> Plain:
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
