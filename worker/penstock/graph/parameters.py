"""``job.parameters`` as a job function gets them: texts by name, converted by typed methods."""

from collections.abc import Iterator, Mapping

from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.base.units import duration_s
from penstock.base.user_code import caller_place


class Parameters(Mapping[str, str]):
    """The parameters of a job. A look-up of an unknown name raises ConfigError with similar names.

    The typed methods raise ConfigError if the text does not have the type.
    """

    def __init__(self, values: Mapping[str, str], args: tuple[str, ...] = ()) -> None:
        self._values = dict(values)
        self._asked: set[str] = set()
        self.args = args

    @property
    def asked(self) -> frozenset[str]:
        """The names that the job has asked for, whether they are set or not."""
        return frozenset(self._asked)

    def __getitem__(self, name: str) -> str:
        self._asked.add(name)
        if name not in self._values:
            raise ConfigError(
                f"{caller_place()}: {unknown('parameter', name, self._values)}; "
                f"set it in the file or with --set job.parameters.{name}=..."
            )
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        self._asked |= self._values.keys()  # whoever goes through all of them has seen all
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        self._asked.add(str(name))
        return name in self._values

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        """Return a parameter as text, or ``default`` if it is not set."""
        self._asked.add(name)
        return self._values.get(name, default)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a parameter as a whole number."""
        if name not in self and default is not None:
            return default
        try:
            return int(self[name])
        except ValueError:
            raise self._type_error(name, "a whole number") from None

    def number(self, name: str, default: float | None = None) -> float:
        """Return a parameter as a number."""
        if name not in self and default is not None:
            return default
        try:
            return float(self[name])
        except ValueError:
            raise self._type_error(name, "a number") from None

    def boolean(self, name: str, default: bool | None = None) -> bool:
        """Return a parameter as a bool. Its text must be ``true`` or ``false``."""
        if name not in self and default is not None:
            return default
        value = {"true": True, "false": False}.get(self[name].lower())
        if value is None:
            raise self._type_error(name, "true or false")
        return value

    def seconds(self, name: str, default: float | None = None) -> float:
        """Return a duration such as ``10s`` in seconds."""
        if name not in self and default is not None:
            return default
        try:
            return duration_s(self[name])
        except ValueError:
            raise self._type_error(name, "a duration like 10s") from None

    def _type_error(self, name: str, expected: str) -> ConfigError:
        return ConfigError(f"{caller_place()}: parameter {name!r}: expected {expected}, got {self[name]!r}")
