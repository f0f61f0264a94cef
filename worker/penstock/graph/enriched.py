"""``stream.enrich`` and ``stream.lookup``: their arguments, and what an asynchronous function must be."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any, Literal

from penstock.base import limits
from penstock.base.errors import ConfigError
from penstock.base.user_code import caller_place
from penstock.base.values import replace
from penstock.contract.asynchronous import Cache, OnFailure, ResultOrder, Retries
from penstock.contract.graph import Call, Enrich, Lookup, LookupHow
from penstock.graph.window_shapes import Duration, microseconds
from penstock.model.declared.function_types import FunctionTypes, function_place

ResultOrderLike = Literal["input", "any"]
OnFailureLike = Literal["fail", "dead-letter", "null"]


def retries(
    most: int, wait: Duration = "100ms", *, factor: int = 2, on: tuple[type[BaseException], ...] = ()
) -> Retries:
    """Make a call that has failed again, up to ``most`` times.

    The first repetition comes ``wait`` after the failure, and each further one after ``factor`` times as long, up to a
    minute. ``on`` lists the classes of errors after which a call is made again; left out: after all. An attempt that
    takes too long raises TimeoutError. Raises ConfigError.
    """
    for name, value in (("most", most), ("factor", factor)):
        if type(value) is not int or not 1 <= value <= limits.RETRIES_MAX:
            raise ConfigError(
                f"{caller_place()}: retries: {name}={value!r}: it must be a whole number from 1 to {limits.RETRIES_MAX}"
            )
    wrong = [error for error in on if not (isinstance(error, type) and issubclass(error, BaseException))]
    if wrong:
        raise ConfigError(f"{caller_place()}: retries: on: {wrong[0]!r} is no class of errors")
    classes = tuple(f"{error.__module__}:{error.__qualname__}" for error in on)
    return Retries(most, microseconds("wait", wait), factor, classes)


def cache(rows: int, ttl: Duration | None = None) -> Cache:
    """Remember up to ``rows`` answers in each task, each for ``ttl``. Raises ConfigError."""
    if type(rows) is not int or not 1 <= rows <= limits.CACHE_ROWS_MAX:
        most = f"{limits.CACHE_ROWS_MAX:,}"
        raise ConfigError(f"{caller_place()}: cache: rows={rows!r}: it must be a whole number from 1 to {most}")
    return Cache(rows, None if ttl is None else microseconds("ttl", ttl))


def enrich_of(about: str, call: Call, options: dict[str, Any]) -> Enrich:
    """Return the step that these arguments of :meth:`Stream.enrich` describe.

    Raises ConfigError that begins with ``about``.
    """
    for name, kind in (("order", ResultOrder), ("on_error", OnFailure)):
        if options[name] not in set(kind):
            raise ConfigError(f"{about}: {name}={options[name]!r} is not one of {', '.join(kind)}")
    _check_counts(about, options, limits.CALLS_MAX)
    timeout_us = microseconds("timeout", options["timeout"])
    if timeout_us < 1_000:
        raise ConfigError(f"{about}: timeout={options['timeout']!r}: it must be at least 1ms")
    _check_made(about, options, {"retries": Retries, "cache": Cache})
    kept = {name: options[name] for name in ("capacity", "batch", "retries", "cache")}
    order, on_error = ResultOrder(options["order"]), OnFailure(options["on_error"])
    return Enrich(call, order, timeout_us=timeout_us, on_error=on_error, **kept)


def lookup_of(about: str, declared: Lookup, options: dict[str, Any]) -> Lookup:
    """Return a lookup with these arguments of :meth:`Stream.lookup`. Raises ConfigError that begins with ``about``."""
    if options["how"] not in set(LookupHow):
        raise ConfigError(f"{about}: how={options['how']!r} is not one of {', '.join(LookupHow)}")
    _check_counts(about, options, limits.LOOKUP_CALLS_MAX)
    _check_made(about, options, {"cache": Cache})
    return replace(declared, **options | {"how": LookupHow(options["how"])})


def _check_counts(about: str, options: dict[str, Any], calls_max: int) -> None:
    for name, most in (("capacity", calls_max), ("batch", limits.CALL_ROWS_MAX)):
        if type(options[name]) is not int or not 1 <= options[name] <= most:
            raise ConfigError(f"{about}: {name}={options[name]!r}: it must be a whole number from 1 to {most:,}")


def _check_made(about: str, options: dict[str, Any], kinds: dict[str, type[object]]) -> None:
    for name, wanted in kinds.items():
        if options[name] is not None and not isinstance(options[name], wanted):
            raise ConfigError(f"{about}: {name}={options[name]!r}: write {name}=ps.{name}(...)")


def check_enrich(enrich: Enrich, function: Callable[..., Any], types: FunctionTypes | None, place: str) -> None:
    """Refuse a function that is not asynchronous, and what does not go together. ``place`` begins error messages."""
    plain: Any = inspect.unwrap(function)
    called = plain if inspect.isroutine(plain) else getattr(plain, "__call__", None)  # noqa: B004  an object is called
    if not inspect.iscoroutinefunction(called):
        raise ConfigError(f"{place}: {function_place(function)} is not asynchronous: write async def")
    if types is None and enrich.cache is not None:
        raise ConfigError(
            f"{place}: cache: {function_place(function)} has no types, so its answer may depend on the whole row: "
            "write async def f(r: Asked) -> Answer, where Asked is a @ps.record of what it depends on"
        )
    if types is not None and enrich.batch > 1:
        raise ConfigError(
            f"{place}: batch={enrich.batch}: {function_place(function)} takes one {types.record.name}: with a batch it "
            "gets a list of dicts and returns a list of dicts, and columns says what these have"
        )


def check_named_errors(enrich: Enrich, place: str) -> None:
    """Refuse names in a file that are no classes of errors. ``place`` begins error messages."""
    for name in () if enrich.retries is None else enrich.retries.on:
        _check_class(name, place)


def _check_class(name: str, place: str) -> None:
    module, _, qualified = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{place}: retries: errors: {name!r} cannot be imported: {error}") from None
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise ConfigError(f"{place}: retries: errors: {name!r} is no class of errors")
