from bench.ranges import ranges


def test_a_range_has_all_exact_runs_in_which_the_machine_was_the_benchmarks_own() -> None:
    def run(name: str, value: float, others: float = 0.0, exact: bool = True) -> dict[str, object]:
        return {"name": name, "exact": exact, "results": {"x": value, "others_share": others}}

    found, busy = ranges(
        {
            "one": {"kind": "scenario", "scenario": "s", "runs": [run("a", 2.0), run("b", 5.0)]},
            "two": {"kind": "scenario", "scenario": "s", "runs": [run("a", 1.0), run("a", 9, 0.5)]},
            "three": {"kind": "scenario", "scenario": "t", "runs": [run("a", 7.0)]},
            "wrong": {"kind": "scenario", "scenario": "s", "runs": [run("a", 0.0, exact=False)]},
        },
        "x",
        ["s"],
    )
    assert found == {"a": [(1.0, "two"), (2.0, "one")], "b": [(5.0, "one")]}
    assert busy == 1
