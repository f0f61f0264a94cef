"""Random objects from the tables of fields: valid ones, and ones with an error anywhere."""

import re
from typing import Any

from hypothesis import strategies as st

from penstock.contract import streamsnapshot
from penstock.contract.schema import FieldRow, Kind
from penstock.contract.streamjob import SPEC
from tests.integration.kubernetes.crds.samples import job, object_of

Values = st.SearchStrategy[Any]
ODD: Values = st.sampled_from(
    [None, True, 0, -1, 1.5, 2.0, 1e300, 2**63, "", "x", " ", "10s", [], [None], {}, {"x": 1}]
)
NAMES = [
    "a",
    "b",
    "main",
    "A_B",
    "_x",
    "__x",
    "a.b",
    "1a",
    "a-",
    "é",
    "PENSTOCK_X",
    "a b",
    "x" * 64,
]
PLACES = ["s3://bucket/a", "http://host:9000", "postgresql://host/base", "env:KEY", "file:/run/key", "secret:db/key"]
PLACES += ["10.20.0.0/16", "10.0.0.256/8", "fd00::/8"]
TEXTS = [*NAMES, *PLACES, "-5m", "jobs:words", "jobs.x:y", "j:", "10", "\n", "a\nb", "x" * 254, "x" * 1025]
AMOUNTS = ["0", "1", "500m", "1.5Gi", "2Gi", "1e3", ".5", "5.", "-1", "1KB", "1k", "", 3, -3, 0.5]
DURATIONS = ["0", "0s", "1us", "99ms", "100ms", "1.5s", "10s", "1h30m", "30m1h", "1d", "1w", "5", "-1s"]
DURATIONS += ["999999h", "9999999h", "1.0000000001s", "1s500ms", "s", "1 s", "10S", "1m1m"]
QUANTITIES = [0, 1, 65536, 2**40, -1, "0", "1", "64Ki", "1.5Gi", "16Mi", "4Mi", "1M", "64MB", "1e3"]
TYPES = ["int64", "string", "timestamp[us]"]


def drawn_jobs() -> Values:
    """Draw StreamJobs: the smallest one with some more fields of the table."""
    spec = members(SPEC, [f.name for f in SPEC.fields if f.name != "job"])
    least = job()["spec"]
    return st.builds(
        lambda given, what: object_of("StreamJob", {**least, **given, **what}, "words"),
        spec,
        st.one_of(st.just({}), members(SPEC, ["job"])),
    )


def drawn_snapshots() -> Values:
    """Draw StreamSnapshots."""
    row = streamsnapshot.SPEC
    return st.builds(
        lambda spec: object_of("StreamSnapshot", spec, "before"),
        members(row, [f.name for f in row.fields]),
    )


def members(row: FieldRow, names: list[str]) -> Values:
    """Draw an object with a few of the named fields, which are mostly valid."""
    rows = {f.name: f for f in row.fields if f.name in names}
    must = sorted(n for n in rows if rows[n].required)
    some = st.lists(st.sampled_from(sorted(rows)), max_size=4, unique=True)
    one = st.sampled_from([[n] for n in row.one_of if n in rows] or [[]])
    chosen = st.builds(lambda a, b: sorted({*must, *a, *b}), some, one)
    return chosen.flatmap(lambda given: st.fixed_dictionaries({name: value(rows[name]) for name in given}))


def value(row: FieldRow) -> Values:
    """Draw a value of a field, which is sometimes invalid."""
    return st.integers(0, 19).flatmap(lambda luck: ODD if luck == 0 else st.deferred(_as(row)))


def _as(row: FieldRow) -> Any:
    def draw() -> Values:
        match row.kind:
            case Kind.OBJECT:
                return members(row, [f.name for f in row.fields])
            case Kind.LIST:
                return st.lists(value(row.item()), max_size=3)
            case Kind.TEXT_MAP:
                texts = st.sampled_from(AMOUNTS if row.pattern else TEXTS)
                return st.dictionaries(st.sampled_from(["cpu", "memory", "a"]), texts, max_size=3)
            case Kind.OPEN:
                return st.dictionaries(st.sampled_from(["containers", "x"]), ODD, max_size=2)
            case Kind.CHOICE:
                return st.sampled_from([*row.choices, "other"])
            case Kind.BOOLEAN:
                return st.booleans()
            case _:
                return st.one_of(
                    st.sampled_from(_right(row)),
                    st.sampled_from(_right(row)),
                    st.sampled_from(_candidates(row)),
                )
        raise AssertionError(row.kind)

    return draw


def _right(row: FieldRow) -> list[Any]:
    match row.kind:
        case Kind.DURATION_S | Kind.DURATION_US:
            return ["20s", "1h30m", "1500ms"]
        case Kind.QUANTITY:
            return [row.default or "64Mi"]
        case Kind.INTEGER | Kind.NUMBER:
            return [row.default or row.minimum or 1]
        case _:
            return [t for t in TEXTS if re.fullmatch(row.pattern or ".*", t) and len(t) < 64]


def _candidates(row: FieldRow) -> list[Any]:
    match row.kind:
        case Kind.DURATION_S | Kind.DURATION_US:
            return DURATIONS
        case Kind.QUANTITY:
            return [*QUANTITIES, row.default or 1]
        case Kind.INTEGER | Kind.NUMBER:
            bounds = [b for b in (row.minimum, row.maximum) if isinstance(b, int | float)]
            return [1, 2, 3, *bounds, *(b + 1 for b in bounds), *(b - 1 for b in bounds)]
        case _:
            return [*TEXTS, *TYPES]
