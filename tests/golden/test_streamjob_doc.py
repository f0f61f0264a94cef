"""The documentation of the StreamJob file is made from the table of fields, and is current."""

from tools.streamjob_doc import FILE, render


def test_the_page_is_current() -> None:
    assert FILE.read_text(encoding="utf-8") == render(), "run: python -m tools.streamjob_doc"
