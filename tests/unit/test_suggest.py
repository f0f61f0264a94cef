"""Unknown names are answered with the nearest known one."""

from penstock.base.suggest import unknown


def test_a_near_miss_names_the_known_one() -> None:
    assert unknown("step", "agregate", ["aggregate", "map"]) == ("unknown step 'agregate': did you mean 'aggregate'?")


def test_what_is_not_built_is_not_likened_to_something_else() -> None:
    said = unknown("field", "gap", ["size", "offset"])
    assert said.startswith("unknown field 'gap': sessions have a shape of their own: ps.session('30m')")
    assert "slide: 1m" in unknown("field", "hop", ["size", "slide"])
    assert unknown("step", "session", ["session"]).endswith("did you mean 'session'?")


def test_a_far_miss_lists_all() -> None:
    assert unknown("step", "zzz", ["map", "filter"]) == "unknown step 'zzz': known are filter, map"
