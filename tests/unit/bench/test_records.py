"""A record names a command that anybody can give, and no folder of the machine it was made on."""

import pytest

from bench import records


@pytest.mark.parametrize("out", [["--out", "/some/where"], ["--out=/some/where"], []])
def test_the_folder_of_the_results_is_not_part_of_the_command(out: list[str]) -> None:
    spelt = records.command_line("bench.run", ["slow-step", *out, "--set", "rows=5 000"])
    assert spelt == "python -m bench.run slow-step --set 'rows=5 000'"


def test_no_record_that_is_kept_names_a_folder_of_the_machine_it_was_made_on() -> None:
    commands = {stem: str(r.get("command", "")) for stem, r in records.read_all().items()}
    assert [stem for stem, command in commands.items() if " --out" in command] == []
