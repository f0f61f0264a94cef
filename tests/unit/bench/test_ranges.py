from bench.ranges import ranges
from bench.summary import Line


def test_a_range_has_all_exact_runs_in_which_the_machine_was_the_benchmarks_own() -> None:
    def line(file: str, run: str, value: float, others: float = 0.0, exact: bool = True) -> Line:
        figures = {"x": value, "others_share": others}
        return {"file": file, "run": run, "exact": exact, "figures": figures}

    lines = [
        line("one", "s a=1", 2.0),
        line("one", "s/b", 5.0),
        line("two", "s a=1", 1.0),
        line("two", "s a=1", 9.0, others=0.5),
        line("three", "t", 7.0),
        line("wrong", "s a=1", 0.0, exact=False),
        {"file": "two", "verdict": {}},
    ]
    found, busy = ranges(lines, "x", ["s"])
    assert found == {"s a=1": [(1.0, "two"), (2.0, "one")], "s/b": [(5.0, "one")]}
    assert busy == 1
