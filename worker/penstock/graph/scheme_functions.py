"""Reads the schemes of a step: the functions by which its rows may go to its tasks."""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.suggest import unknown
from penstock.contract.graph import NAME_RULE
from penstock.contract.schemes import Choices, Scheme, SchemeNames, Schemes, refused

Functions = Mapping[str, Callable[..., object]]  # by the names of schemes
NO_FUNCTIONS: Functions = MappingProxyType({})
ONLY_FUNCTION = ""  # the name of the function of a step that has only one
_NAME = re.compile(r"[a-z]([-a-z0-9_]{0,61}[a-z0-9])?")


def partition_functions(
    about: str, function: Callable[..., object] | None, schemes: Functions | None, use: str | None
) -> Functions:
    """Return the functions that ``partition`` was called with. ``about`` begins an error message.

    Raises ConfigError.
    """
    if (function is None) == (schemes is None) or (schemes is None) != (use is None):
        raise ConfigError(f"{about}: give one function, or schemes={{name: function}} with use=name")
    found = {ONLY_FUNCTION: function} if schemes is None else dict(schemes)
    for name, each in found.items():
        if not callable(each):
            what = f"scheme {name!r}" if name else "its argument"
            raise ConfigError(f"{about}: {what} is {type(each).__name__}, not a function f(batch, tasks)")
    return {name: each for name, each in found.items() if each is not None}


def schemes_of(about: str, functions: Iterable[tuple[str, str]], use: str) -> Schemes:
    """Return schemes from the names of functions by the names of schemes. ``about`` begins an error message.

    Raises ConfigError.
    """
    found = tuple(Scheme(name, function) for name, function in functions)
    if not found:
        raise ConfigError(f"{about}: it has no scheme: name at least one function")
    if len(found) > limits.SCHEMES_MAX:
        raise ConfigError(f"{about}: it has {len(found)} schemes; at most {limits.SCHEMES_MAX} are allowed")
    for scheme in found:
        if not _NAME.fullmatch(scheme.name):
            raise ConfigError(f"{about}: {scheme.name!r} is no name of a scheme: write {NAME_RULE}")
    names = [scheme.name for scheme in found]
    if use not in names:
        raise ConfigError(f"{about}: use: {unknown('scheme', use, names)}")
    return Schemes(found, use)


def check_choices(known: Mapping[str, SchemeNames], asked: Choices, where: Callable[[int], str]) -> None:
    """Raise ConfigError for choices that are not ``known``. ``where`` gives the place of each."""
    bad = {(each.step, each.use): each.text for each in refused(known, asked)}
    lines = [f"{where(i)}: {bad[c.step, c.use]}" for i, c in enumerate(asked) if (c.step, c.use) in bad]
    if lines:
        raise ConfigError("\n".join(lines))
