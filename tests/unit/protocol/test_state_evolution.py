"""What becomes of the fields of a state with types that has changed since a checkpoint."""

import pytest

from penstock.base.values import replace
from penstock.contract.columns import Column
from penstock.contract.ids import Attempt, Epoch, JobUid, Term, Version
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import Assignment, PhysicalPlan, StateColumn, StepState
from penstock.model.declared.value_kinds import Choice, kind_text
from penstock.protocol.state_evolution import Fate, field_changes, takes_over
from penstock.protocol.state_matching import incompatible, match, migrated_steps


def state(**fields: str) -> StepState:
    columns = tuple(StateColumn(name, type_, number=n) for n, (name, type_) in enumerate(fields.items(), 1))
    return StepState("count", "process", keys=(Column("word", "string"),), columns=columns)


def plan(wanted: StepState) -> PhysicalPlan:
    return PhysicalPlan("job", 16, (), (), "", (wanted,))


def root(stored: StepState) -> RootManifest:
    table = Assignment(Version(1), 1, ())
    return RootManifest(
        JobUid("job"), Epoch(3), Term(1), Attempt(1), "checkpoint", 16, "", table, (), (stored,), (("count",),)
    )


STORED = state(n="int64", label="string", last="Ring[int8, 5]")


def test_fields_are_found_by_name_in_any_order() -> None:
    changed = state(last="Ring[int8, 5]", since="Time | None", n="int64")
    found = [(c.field, c.fate) for c in field_changes(STORED, changed)]
    assert found == [("last", Fate.KEPT), ("since", Fate.ADDED), ("n", Fate.KEPT), ("label", Fate.DROPPED)]


def test_a_state_with_added_and_dropped_fields_is_taken_over_and_described() -> None:
    changed = plan(state(n="int64", last="Ring[int8, 5]", since="Time | None"))
    assert incompatible(root(STORED), changed) is None
    (said,) = match(root(STORED), changed).evolved
    assert said == (
        "step 'count': field since: Time | None is new: keys that are there get its default; "
        "field label: string is dropped: its values are given up"
    )


def test_a_state_that_has_not_changed_is_not_described() -> None:
    assert match(root(STORED), plan(STORED)).evolved == ()
    moved = state(label="string", last="Ring[int8, 5]", n="int64")
    assert match(root(STORED), plan(moved)).evolved == ()


def test_another_type_is_refused_with_step_field_both_schemas_and_the_remedy() -> None:
    why = incompatible(root(STORED), plan(state(n="string", label="string", last="Ring[int8, 5]"))) or ""
    assert "step 'count': field n was int64 and is string: stored keys [word: string], columns [n: int64, " in why
    assert "the job has [word: string], [n: string, " in why
    assert "restore.dropState: [count]" in why


def test_other_keys_are_refused_whatever_the_fields_are() -> None:
    wanted = replace(state(n="int64", more="int64"), keys=(Column("lang", "string"),))
    why = incompatible(root(STORED), plan(wanted)) or ""
    assert "step 'count': stored keys [word: string], columns" in why


def test_a_state_of_dicts_does_not_evolve() -> None:
    plain = replace(STORED, columns=tuple(replace(c, number=0) for c in STORED.columns))
    fewer = replace(plain, columns=plain.columns[:2])
    assert "step 'count': stored" in (incompatible(root(plain), plan(fewer)) or "")


def renamed(type_: str) -> StepState:
    columns = (StateColumn("total", type_, number=1, renamed="n"), *STORED.columns[1:])
    return replace(STORED, columns=columns)


def test_a_renamed_field_takes_over_the_values_of_its_earlier_name() -> None:
    assert incompatible(root(STORED), plan(renamed("int64"))) is None
    (said,) = match(root(STORED), plan(renamed("double | None"))).misfits
    assert "field total was n: int64 and is double | None" in said
    found = [(c.field, c.fate) for c in field_changes(STORED, renamed("int64"))]
    assert found == [("total", Fate.RENAMED), ("label", Fate.KEPT), ("last", Fate.KEPT)]


def test_a_renamed_field_may_say_so_for_ever() -> None:
    assert match(root(renamed("int64")), plan(renamed("int64"))).evolved == ()


def test_a_field_that_is_stored_itself_cannot_be_another_one_renamed() -> None:
    both = state(n="int64", total="int64", label="string", last="Ring[int8, 5]")
    why = incompatible(root(both), plan(renamed("int64"))) or ""
    assert "field total is stored itself, so it cannot be the renamed n" in why


@pytest.mark.parametrize(
    ("had", "has"),
    [
        ("int8", "int16"),
        ("uint8", "int16"),
        ("uint32", "uint64"),
        ("float", "double"),
        ("int16", "float"),
        ("uint32", "double"),
        ("string", "string | None"),
        ("int8", "int64 | None"),
        ("int8 | None", "int64 | None"),
        ("Enum[a, b]", "Enum[a, b, c]"),
        ("Enum[a]", "Enum[a, b] | None"),
        ("Ring[int8, 5]", "Ring[int32, 2]"),
        ("Ring[Enum[a, b], 2]", "Ring[Enum[a, b, c], 2]"),
        ("decimal128(6, 2)", "decimal128(38, 2)"),
        ("List[int8]", "List[int64 | None]"),
        ("Map[string, int8]", "Map[string, int64]"),
        ("Map[Enum[a, b], float]", "Map[Enum[a, b, c], double]"),
        ("Map[decimal128(6, 2), Enum[a, b]]", "Map[decimal128(6, 2), Enum[a, b, 'c, d']]"),
        ("Set[Enum[a]]", "Set[Enum[a, b]]"),
    ],
)
def test_a_type_that_holds_all_values_takes_them_over(had: str, has: str) -> None:
    assert takes_over(had, has)
    assert not takes_over(has, had) or "Ring[int8" in had
    assert [c.fate for c in field_changes(state(n=had), state(n=has))] == [Fate.WIDENED]


@pytest.mark.parametrize(
    ("had", "has"),
    [
        ("int64", "double"),
        ("int32", "float"),
        ("int8", "uint16"),
        ("bool", "int8"),
        ("uint8", "bool"),
        ("int64", "Time"),
        ("Time", "int64"),
        ("string", "binary"),
        ("string | None", "string"),
        ("Enum[a, b]", "Enum[b, a]"),
        ("Enum[a, b]", "Enum[a, bc]"),
        ("Enum[a, b]", "Enum[a, 'b, c']"),
        ("Enum[a] | None", "Enum[a, b]"),
        ("Ring[int32, 5]", "Ring[int8, 9]"),
        ("Ring[int8, 5]", "List[int8]"),
        ("decimal128(6, 2)", "decimal128(8, 3)"),
        ("Timer", "ClockTimer"),
        ("Set[int8]", "Set[int16]"),
        ("Set[int8]", "List[int8]"),
        ("Map[int8, int8]", "Map[int16, int8]"),
        ("Map[string, int64]", "Map[string, int8]"),
        ("Map[decimal128(6, 2), bool]", "Map[decimal128(8, 2), bool]"),
        ("Map[Enum[a, b], bool]", "Map[Enum[b, a], bool]"),
    ],
)
def test_other_types_are_refused(had: str, has: str) -> None:
    assert not takes_over(had, has)


def test_texts_of_an_enum_that_look_like_several_are_told_apart() -> None:
    assert kind_text(Choice(("a, b", "c]"))) == "Enum['a, b', 'c]']"
    assert not takes_over(kind_text(Choice(("a", "b"))), kind_text(Choice(("a, b", "c"))))


def test_each_field_is_foretold_also_those_of_a_step_that_does_not_fit() -> None:
    found = match(root(STORED), plan(state(n="string", label="string | None")))
    assert found.changed == ("count",)
    assert [str(change) for change in found.fields["count"]] == [
        "n was int64 and is string",
        "label: string | None takes over the values of string",
        "last: Ring[int8, 5] is dropped: its values are given up",
    ]
    assert found.evolved == (), "the step is refused"


# --- Migration ----------------------------------------------------------------------------------

CONVERTED = replace(state(sums="Map[string, int64]", n="string"), migrates=STORED.columns)


def test_a_state_that_the_job_converts_is_taken_over_and_described() -> None:
    assert incompatible(root(STORED), plan(CONVERTED)) is None
    assert migrated_steps(root(STORED), plan(CONVERTED)) == ("count",)
    found = match(root(STORED), plan(CONVERTED))
    assert found.fields == {}
    assert found.evolved == (
        "step 'count': its state [n: int64, label: string, last: Ring[int8, 5]] is migrated to "
        "[sums: Map[string, int64], n: string]",
    )


@pytest.mark.parametrize(
    "stored",
    [
        state(n="string", sums="Map[string, int64]"),  # migrated before
        state(sums="Map[string, int8]", more="bool"),  # evolves
    ],
)
def test_a_state_that_the_job_does_not_convert_evolves(stored: StepState) -> None:
    assert incompatible(root(stored), plan(CONVERTED)) is None
    assert migrated_steps(root(stored), plan(CONVERTED)) == ()
    assert match(root(stored), plan(CONVERTED)).migrated == {}


def test_the_exact_fields_of_the_earlier_class_are_migrated_although_they_could_evolve() -> None:
    both = replace(state(n="int64", more="bool"), migrates=(StateColumn("n", "int8", number=1),))
    assert migrated_steps(root(state(n="int8")), plan(both)) == ("count",)
    assert migrated_steps(root(state(n="int16")), plan(both)) == ()


@pytest.mark.parametrize(
    "stored",
    [state(n="string", label="string", last="Ring[int8, 5]"), state(label="string"), state(label="int8", sums="bool")],
)
def test_fields_of_the_earlier_class_are_not_given_up_where_it_is_not_the_stored_one(stored: StepState) -> None:
    why = incompatible(root(stored), plan(CONVERTED)) or ""
    assert "label" in why.partition(" would be given up: the fields that are migrated are not exactly those")[0]
    assert "step 'count': field " in why
    assert "and migrates [n: int64, label: string, last: Ring[int8, 5]]" in why


def test_a_state_that_was_migrated_may_drop_fields() -> None:
    stored = state(n="string", sums="Map[string, int64]", gone="bool")
    assert incompatible(root(stored), plan(CONVERTED)) is None


def test_neither_class_fits_shows_the_stored_the_present_and_the_earlier_one() -> None:
    stored = state(n="int64", sums="Map[string, int8]")
    why = incompatible(root(stored), plan(CONVERTED)) or ""
    assert "step 'count': field n was int64 and is string: stored keys [word: string], columns [n: int64, " in why
    assert "the job has [word: string], [sums: Map[string, int64], n: string], and migrates [n: int64, label: " in why


def test_other_keys_are_not_migrated() -> None:
    wanted = replace(CONVERTED, keys=(Column("lang", "string"),))
    assert "step 'count': stored keys [word: string]" in (incompatible(root(STORED), plan(wanted)) or "")
