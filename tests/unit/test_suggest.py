"""Unknown names are answered with the nearest known one."""

from penstock.base.suggest import unknown


def test_a_near_miss_names_the_known_one() -> None:
    assert unknown("step", "agregate", ["aggregate", "map"]) == (
        "unknown step 'agregate': did you mean 'aggregate'?"
    )


def test_a_far_miss_lists_all() -> None:
    assert unknown("step", "zzz", ["map", "filter"]) == "unknown step 'zzz': known are filter, map"
