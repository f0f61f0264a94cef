"""How the times of a join are declared: windows, or an interval between the times of both rows."""

from datetime import UTC, datetime, timedelta

from penstock.base.errors import ConfigError
from penstock.base.units import signed_duration_us, span_text
from penstock.contract.codec import ABSENT, Absent
from penstock.contract.schema import Rule

JOIN_TIMES = Rule(
    "(has(self.within) ? 1 : 0) + (has(self.lower) && has(self.upper) ? 1 : 0) + (has(self.asOf) ? 1 : 0) == 1"
    " && has(self.lower) == has(self.upper)",
    "a join needs within, or lower and upper, or asOf",
)


def check_interval(lower_us: int, upper_us: int) -> None:
    """Raise ConfigError for an interval without any time."""
    if lower_us > upper_us:
        raise ConfigError(f"lower {signed_text(lower_us)} is above upper {signed_text(upper_us)}: no row has a partner")


def check_table_join(is_table: bool, how: str, has_time: bool) -> None:
    """Raise ConfigError for what a join with a table cannot do."""
    if is_table and how not in ("inner", "left"):
        raise ConfigError(f"how is {how}: rows of a table are not emitted by themselves, so it must be inner or left")
    if is_table and has_time:
        raise ConfigError("the result of a join with a table has the event time of the left row: no other one is added")


def check_loading(as_of: str | None, load_until: str | Absent, lateness_us: int) -> None:
    """Raise ConfigError for what a join with a table as it is now has not, and for a time that is none."""
    if as_of != "now":
        if load_until is not ABSENT:
            raise ConfigError("load until: only a table as it is now (as_of, asOf: now) is loaded first")
        return
    if lateness_us:
        raise ConfigError("allowed lateness: a row is joined when it comes, so none is late")
    if load_until is not ABSENT:
        loaded_us(load_until)


def loaded_us(load_until: str) -> int:
    """Return the time up to which a table is loaded, in microseconds of UTC. Raises ConfigError."""
    try:
        time = datetime.fromisoformat(load_until)
    except ValueError as error:
        raise ConfigError(f"load until: {load_until!r} is no time like 2026-01-01T12:00:00: {error}") from None
    since = (time if time.tzinfo is not None else time.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def signed_text(us: int) -> str:
    """Spell a duration that may be negative: ``10m``, ``-5m``."""
    return f"-{span_text(-us / 1_000_000)}" if us < 0 else span_text(us / 1_000_000)


def declared_join_times(given: dict[str, object]) -> dict[str, int | None]:
    """Read ``within_us``, ``offset_us``, ``lower_us`` and ``upper_us`` of a join, the last two of which are texts.

    Raises ConfigError when they do not belong together, ValueError for a text that is no duration.
    """
    within, offset = given["within_us"], given["offset_us"]
    ends = {name: _signed(given[name]) for name in ("lower_us", "upper_us")}
    lower, upper = ends.values()
    kinds = within is not None, lower is not None and upper is not None, given["as_of"] is not None
    JOIN_TIMES.refuse(sum(kinds) != 1 or (lower is None) != (upper is None))
    if within is None and offset:
        raise ConfigError("offset shifts windows: it belongs to within")
    if lower is not None and upper is not None:
        check_interval(lower, upper)
    return ends


def _signed(text: object) -> int | None:
    return None if text is None else signed_duration_us(str(text))
