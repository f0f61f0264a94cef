"""Connectors of installed packages: a package names them as entry points of the group ``penstock.connectors``.

A job that names a kind that is not built in gets the object that the package makes. From then on it is a source or sink
of the user's own. Only what compiles a job imports a package: the operator never does.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Final

from penstock.base.errors import ConfigError
from penstock.base.suggest import nearest, unknown
from penstock.contract.connectors import Role, connector_kinds
from penstock.contract.graph import PYTHON_CONNECTOR, Connector, Lookup, Option, Sink, Source
from penstock.graph.connect import check_user_connector
from penstock.graph.draft import CONNECTOR, GraphDraft
from penstock.graph.entrypoint import error_with_traceback
from penstock.graph.problems import Problems

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP: Final = "penstock.connectors"
API: Final = 1  # of what a package gives; it rises when an older package would no longer work
STEP: Final = "step"  # a factory's parameter with this name has the name of the step
_ROLES: Final = {Source: Role.SOURCE, Sink: Role.SINK, Lookup: Role.LOOKUP}
_TRUTH: Final = {"true": True, "false": False}
_READERS: Final[dict[object, Callable[[str], Option]]] = {int: int, float: float, bool: lambda text: _TRUTH[text]}
_FORMS: Final[dict[object, str]] = {int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPlugin:
    """What an entry point of the group ``penstock.connectors`` gives: how to make a source, a sink or a lookup.

    The parameters of ``source``, ``sink`` and ``lookup`` are the options of the connector. A parameter ``step``
    has the name of the step instead. ``api`` is the version of this contract for which the package was written.
    """

    source: Callable[..., object] | None = None
    sink: Callable[..., object] | None = None
    lookup: Callable[..., object] | None = None
    api: int = API


def open_plugins(draft: GraphDraft) -> None:
    """Make the sources, sinks and lookups of kinds that are not built in. Raises ConfigError with all problems."""
    problems = Problems(draft)
    for step in draft.steps:
        if not isinstance(step.parameters, Source | Sink | Lookup) or (step.name, CONNECTOR) in draft.functions:
            continue
        role = _ROLES[type(step.parameters)]
        connector = step.parameters.connector
        if connector.kind == PYTHON_CONNECTOR or connector.kind in connector_kinds(role):
            continue
        try:
            draft.functions[step.name, CONNECTOR] = _made(step.name, connector, role)
        except ConfigError as error:
            problems.at(step, str(error))
    problems.raise_if_any()


def _made(step: str, connector: Connector, role: Role) -> object:
    found = _entry_point(connector.kind, role)
    about = f"connector {connector.kind!r} of package {_package(found)}"
    plugin = _loaded(found, about)
    factory: Callable[..., object] | None = getattr(plugin, role)
    if factory is None:
        others = " and a ".join(other for other in Role if getattr(plugin, other) is not None)
        raise ConfigError(f"{about} is no {role}: it has a {others} only")
    make = partial(factory, **_arguments(factory, connector.options, step, about))
    try:
        made = make()
    except ConfigError as error:
        raise ConfigError(f"{about}: {error}") from error
    except Exception as error:
        raise ConfigError(f"{about}: making the {role} failed: {error_with_traceback(error)}") from error
    check_user_connector(about, made, role)
    return made


def _entry_point(kind: str, role: Role) -> "EntryPoint":
    """Return the entry point of a kind. Raises ConfigError when no package has it, or several have."""
    from importlib.metadata import entry_points  # noqa: PLC0415  most jobs need none

    installed = sorted(entry_points(group=GROUP), key=lambda each: (each.name, _package(each)))
    found = [each for each in installed if each.name == kind]
    if len(found) > 1:
        packages = " and ".join(_package(each) for each in found)
        raise ConfigError(f"connector {kind!r} is in several packages, {packages}: uninstall all but one of them")
    if found:
        return found[0]
    built_in = connector_kinds(role)
    like = nearest(kind, {*built_in, *(each.name for each in installed)})
    listed = ", ".join(f"{each.name} (package {_package(each)})" for each in installed) or "none"
    raise ConfigError(
        f"unknown {role} {kind!r}: {f'did you mean {like!r}? ' if like else ''}Built in are {', '.join(built_in)}."
        f" Installed connectors: {listed}. Install the package that has it where the workers run"
    )


def _package(found: "EntryPoint") -> str:
    return "?" if found.dist is None else f"{found.dist.name} {found.dist.version}"


def _loaded(found: "EntryPoint", about: str) -> ConnectorPlugin:
    try:
        plugin = found.load()
    except BaseException as error:  # sys.exit() as well
        raise ConfigError(
            f"{about}: its entry point {found.value} does not import: {error_with_traceback(error)}"
        ) from error
    if not isinstance(plugin, ConnectorPlugin):
        raise ConfigError(f"{about}: its entry point {found.value} is {type(plugin).__name__}, not ps.ConnectorPlugin")
    if plugin.api != API:
        raise ConfigError(
            f"{about} was written for version {plugin.api} of the connector API, and this is version {API}: install a"
            " version of the package that fits this Penstock"
        )
    return plugin


def _arguments(
    factory: Callable[..., object], options: Mapping[str, Option], step: str, about: str
) -> dict[str, object]:
    """Return the arguments of a factory. Raises ConfigError for options that it has not, or that it lacks."""
    taken = _parameters(factory, about)
    open_ended = any(each.kind is Parameter.VAR_KEYWORD for each in taken.values())
    named = {n: p for n, p in taken.items() if p.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)}
    known = [name for name in named if name != STEP]
    for name in options:
        if name not in known and not (open_ended and name != STEP):
            raise ConfigError(f"{about}: {unknown('option', name, known)}")
    missing = [name for name in known if named[name].default is Parameter.empty and name not in options]
    if missing:
        raise ConfigError(f"{about}: it needs the option {missing[0]}")
    given: dict[str, object] = {n: _value(v, named.get(n), f"{about}: {n}") for n, v in options.items()}
    return given | ({STEP: step} if STEP in named else {})


def _parameters(factory: Callable[..., object], about: str) -> Mapping[str, Parameter]:
    try:
        return signature(factory, eval_str=True).parameters
    except NameError:  # a hint that only a checker of types can read
        return signature(factory).parameters
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{about}: {factory!r} is no function or class of Python that makes one") from error


def _value(value: Option, parameter: Parameter | None, about: str) -> Option:
    """Return the value of an option. A job file has texts: the hint of the parameter says how one is read."""
    hint: Any = parameter.annotation if parameter is not None else None
    wanted = next((kind for kind in _READERS if hint == kind or hint == kind | None), None)  # type: ignore[operator]
    if wanted is None or not isinstance(value, str):
        return value
    try:
        return _READERS[wanted](value)
    except (ValueError, KeyError) as error:
        raise ConfigError(f"{about}: must be {_FORMS[wanted]}, not {value!r}") from error
