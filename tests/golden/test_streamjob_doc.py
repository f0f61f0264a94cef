"""The pages on the job file are made from the table of fields, and are current."""

import pytest

from tools.streamjob_doc import DOCS, pages

PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run: python -m tools.streamjob_doc"


def test_each_field_of_a_cluster_is_on_the_page_of_clusters_only() -> None:
    laptop, cluster = PAGES["streamjob.md"], PAGES["streamjob-cluster.md"]
    for line in (
        "| `image` | text",
        "| `volume` | object",
        "## `spec.upgrade`",
        "## `spec.podTemplate.spec`",
    ):
        assert line not in laptop
    assert "| `image` | text" in cluster
    assert "## `spec.upgrade`" in cluster
    assert "## `spec.job.graph`" in laptop
    assert "## `spec.job.graph`" not in cluster
