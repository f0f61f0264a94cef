"""Fields of a StreamJob in what a leader says, as options of the command line."""

from penstock.supervisor.wording import as_options


def test_each_field_becomes_the_option_that_does_the_same() -> None:
    given = (
        "give this state up by restore.dropState: [a, b]; or begin without any by restore.empty; "
        "restore.allowOutputReplay accepts that, restore.unpublished: Drop loses what is not there"
    )
    assert as_options(given) == (
        "give this state up by --drop-state a --drop-state b; or begin without any by "
        "--restore empty --allow-output-replay; "
        "--allow-output-replay accepts that, --drop-unpublished loses what is not there"
    )
    output = "give restore.unpublishedSinks: {out: Drop}; restore.unpublishedSinks: unknown sink"
    assert as_options(output) == "give --unpublished out=Drop; --unpublished: unknown sink"
    assert as_options("step 'restore': ValueError") == "step 'restore': ValueError"
    assert as_options("StateError: the state of checkpoint 7") == "the state of checkpoint 7"
