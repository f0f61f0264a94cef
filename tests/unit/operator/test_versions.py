"""A view is computed once per version of an object, however many objects there are."""

from collections.abc import Callable

from penstock.contract.schema import Plain
from penstock_operator.api.plain import text_at
from penstock_operator.api.views import Versions

OBJECTS = 10_000  # of five hundred jobs; they are looked at in turn


def plain(number: int, version: str = "1") -> Plain:
    return {"metadata": {"uid": f"u{number}", "resourceVersion": version}}


def counted() -> tuple[Callable[[Plain], str], list[str]]:
    seen: list[str] = []

    def view(of: Plain) -> str:
        seen.append(text_at(of, "metadata", "uid"))
        return seen[-1]

    return view, seen


def test_objects_that_are_looked_at_in_turn_are_viewed_once() -> None:
    (view, seen), versions = counted(), Versions()
    for _ in range(3):
        for number in range(OBJECTS):
            assert versions.view(view, plain(number)) == f"u{number}"
    assert len(seen) == OBJECTS


def test_a_new_version_is_viewed_and_the_old_one_is_dropped() -> None:
    (view, seen), versions = counted(), Versions()
    for version in ("1", "2", "2", "3"):
        versions.view(view, plain(7, version))
    assert len(seen) == 3
    assert len(versions.kept[view]) == 1


def test_an_object_without_uid_or_version_is_viewed_each_time() -> None:
    (view, seen), versions = counted(), Versions()
    without: list[Plain] = [{}, {"metadata": {"uid": "u"}}, {"metadata": {"resourceVersion": "1"}}]
    for each in 2 * without:
        versions.view(view, each)
    assert len(seen) == 6
