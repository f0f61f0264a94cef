"""What becomes of the fields of a state with types that has changed since a checkpoint."""

from penstock.base.values import replace
from penstock.contract.columns import Column
from penstock.contract.ids import Attempt, Epoch, JobUid, Term, Version
from penstock.contract.manifest import RootManifest
from penstock.contract.plan import Assignment, PhysicalPlan, StateColumn, StepState
from penstock.protocol.state_evolution import Fate, field_changes
from penstock.protocol.state_matching import incompatible, match


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


def test_a_renamed_field_does_not_lose_its_values() -> None:
    columns = (StateColumn("total", "int64", number=1, renamed="n"), *STORED.columns[1:])
    assert "field total was named n" in (incompatible(root(STORED), plan(replace(STORED, columns=columns))) or "")
