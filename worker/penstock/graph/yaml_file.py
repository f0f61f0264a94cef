"""Reads a YAML or JSON file as plain data, with the line of every value.

Values have the types of JSON, so a date stays text. A repeated key and a second document are errors,
and so are aliases that expand to too many values.
"""

from pathlib import Path
from typing import Final

import yaml

from penstock.base.errors import ConfigError
from penstock.base.os_errors import unreadable
from penstock.base.user_code import short_path
from penstock.contract.reader import Origin
from penstock.contract.schema import Plain

FILE_BYTES_MAX: Final = 4 * 1024 * 1024
VALUES_MAX: Final = 50_000
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SCALARS: Final = {
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:int": "int",
    "tag:yaml.org,2002:float": "float",
}
# kubectl reads YAML 1.1, which has more booleans than this parser knows.
_SHORT_BOOLEANS: Final = {"y": True, "Y": True, "n": False, "N": False}


def read_yaml_file(path: Path) -> tuple[Plain, Origin]:
    """Read one document. Raises ConfigError with file and, if possible, line; StorageError with the file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise unreadable(path, error) from error
    if len(data) > FILE_BYTES_MAX:
        raise ConfigError(f"{path}: has {len(data)} bytes; at most {FILE_BYTES_MAX} are read")
    return parse_yaml(data, short_path(str(path)))


def parse_yaml(data: bytes | str, file: str) -> tuple[Plain, Origin]:
    """Parse one document. Error messages name it by ``file``."""
    try:
        documents = list(yaml.compose_all(data, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{file}:{line}: not YAML: {error.problem or error.context}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {error}") from error
    if len(documents) != 1 or documents[0] is None:
        raise ConfigError(f"{file}: holds {len(documents)} objects; one is expected")
    builder = _Builder(file)
    plain = builder.build(documents[0], "")
    return plain, Origin(file, builder.places)


class _Builder:
    """Turns nodes into plain values, and records the place of each."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[str, str] = {}
        self.count = 0
        self.scalars = yaml.SafeLoader("")

    def build(self, node: yaml.Node, path: str) -> Plain:
        self.count += 1
        if self.count > VALUES_MAX:
            raise ConfigError(f"{self.file}: holds more than {VALUES_MAX} values (aliases?)")
        block = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        line = node.start_mark.line + (2 if block else 1)  # the text of a block begins a line later
        self.places.setdefault(path, f"{self.file}:{line}")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, f"{path}[{i}]") for i, child in enumerate(node.value)]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, path: str) -> Plain:
        values: dict[str, Plain] = {}
        for key_node, value_node in node.value:
            place = f"{self.file}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError(f"{place}: a key must be a text")
            key = key_node.value
            if isinstance(self._scalar(key_node), bool):
                raise ConfigError(f"{place}: the key {key} is a boolean: put it in quotes")
            if key in values:
                raise ConfigError(f"{place}: {key!r} occurs twice in one object")
            child = f"{path}.{key}" if path else key
            if not (isinstance(value_node, yaml.ScalarNode) and value_node.style in ("|", ">")):
                self.places[child] = place
            values[key] = self.build(value_node, child)
        return values

    def _scalar(self, node: yaml.ScalarNode) -> Plain:
        match _SCALARS.get(node.tag):
            case "null":
                return None
            case "bool":
                return bool(self.scalars.construct_yaml_bool(node))
            case "int":
                return self._whole(node)
            case "float":
                return float(self.scalars.construct_yaml_float(node))
            case _ if not node.style and node.value in _SHORT_BOOLEANS:
                return _SHORT_BOOLEANS[node.value]
            case _:
                return str(node.value)

    def _whole(self, node: yaml.ScalarNode) -> int:
        """Read a whole number as it is written: YAML 1.1 also takes 0123, 1_000 and 12:30 for one."""
        number = int(self.scalars.construct_yaml_int(node))
        if node.value != str(number):
            place = f"{self.file}:{node.start_mark.line + 1}"
            raise ConfigError(f"{place}: YAML reads {node.value} as {number}: write {number}, or put a text in quotes")
        return number
