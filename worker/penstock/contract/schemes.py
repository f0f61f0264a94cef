"""Schemes: the functions by which rows may go to the tasks of a step, and which of them holds.

A step whose rows a function of the user deals out may have several such functions, by name. The table of a version says
which one holds (:class:`penstock.contract.plan.Assignment`). Another one holds from the version on that a rescale
commits. The functions here are pure: every leader makes the same table.
"""

import re
from collections.abc import Iterable, Mapping

from penstock.base.errors import ConfigError
from penstock.contract.codec import ABSENT, Absent, Message


class Scheme(Message, tag="Scheme"):
    """A function of the user by the name that the job gives it."""

    name: str
    function: str


class Schemes(Message, tag="Schemes"):
    """What an input of a step may be dealt out by. The scheme ``use`` holds while nobody asks for another one."""

    functions: tuple[Scheme, ...]
    use: str

    @property
    def names(self) -> tuple[str, ...]:
        """List the names of the schemes."""
        return tuple(scheme.name for scheme in self.functions)


class SchemeNames(Message, tag="SchemeNames"):
    """The same without the functions, for keepers."""

    names: tuple[str, ...]
    use: str


class SchemeChoice(Message, tag="SchemeChoice"):
    """The scheme ``use`` deals out the rows of ``step``."""

    step: str
    use: str

    def __str__(self) -> str:
        """Spell the choice as a command takes it: ``work=hot``."""
        return f"{self.step}={self.use}"


class RefusedScheme(Message, tag="RefusedScheme"):
    """A choice that cannot be. ``text`` says why, and which names are known."""

    step: str
    use: str
    text: str


Choices = tuple[SchemeChoice, ...]
_CHOICE = re.compile(r"([-a-z0-9_]+)=([-a-z0-9_]+)")


def chosen(known: Mapping[str, SchemeNames], asked: Choices, held: Choices) -> Choices | Absent:
    """Return the scheme of each step that has several, in the order of ``known``; ABSENT if there is no such step.

    It is the one that is asked for. If the step does not have that one, the scheme that is ``held`` stays.
    """
    wanted, kept = _by_step(asked), _by_step(held)
    found = tuple(SchemeChoice(step, _of(names, wanted.get(step), kept.get(step))) for step, names in known.items())
    return found or ABSENT


def _of(has: SchemeNames, wanted: str | None, kept: str | None) -> str:
    if wanted is None or wanted in has.names:
        return wanted or has.use
    return kept if kept is not None and kept in has.names else has.use


def refused(known: Mapping[str, SchemeNames], asked: Choices) -> tuple[RefusedScheme, ...]:
    """List the choices that cannot be, each with the names that are known."""
    return tuple(
        RefusedScheme(choice.step, choice.use, text)
        for choice in asked
        if (text := _problem(known, choice)) is not None
    )


def _problem(known: Mapping[str, SchemeNames], choice: SchemeChoice) -> str | None:
    if not known:
        return f"no step of the job has schemes, so {choice} cannot be: partition(schemes=...) gives a step some"
    if choice.step not in known:
        return f"{choice}: no step {choice.step!r} has schemes; steps with schemes: {', '.join(known)}"
    names = known[choice.step].names
    if choice.use not in names:
        return f"{choice}: step {choice.step!r} has no scheme {choice.use!r}; its schemes: {', '.join(names)}"
    return None


def said(choices: Iterable[SchemeChoice]) -> str:
    """Spell choices for people: ``work by hot, other by even``."""
    return ", ".join(f"{choice.step} by {choice.use}" for choice in choices)


def read_choice(text: str) -> SchemeChoice:
    """Read ``work=hot``. Raises ConfigError."""
    read = _CHOICE.fullmatch(text)
    if read is None:
        raise ConfigError(f"{text!r} is no choice of a scheme: write STEP=SCHEME")
    return SchemeChoice(read[1], read[2])


def changed(before: Choices, choices: Choices) -> Choices:
    """Return the choices ``before`` with those of some steps changed."""
    return tuple(SchemeChoice(*each) for each in {**_by_step(before), **_by_step(choices)}.items())


def given(choices: Choices | Absent) -> Choices:
    """Return the choices; none when they are left out."""
    return () if choices is ABSENT else choices


def _by_step(choices: Choices) -> dict[str, str]:
    return {choice.step: choice.use for choice in choices}
