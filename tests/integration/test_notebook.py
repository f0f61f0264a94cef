"""The notebook of the examples shows what a kernel of Jupyter gives."""

import copy
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
WITHIN_S = 120


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a kernel, which leaves nothing anywhere else."""
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def execute(notebook: Any, folder: Path) -> Any:
    """Run all cells in a kernel of this Python."""
    resources = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(notebook, timeout=WITHIN_S, kernel_name="python3", resources=resources).execute()


def shown(notebook: Any) -> list[str]:
    """Return the text that each cell of code shows; a kernel may send it in any pieces."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [
        "".join(out["text"] if "text" in out else out["data"]["text/plain"] for out in cell.outputs) for cell in cells
    ]


def test_the_notebook_shows_what_its_cells_give(folder: Path) -> None:
    kept = nbformat.read(NOTEBOOK, as_version=4)
    empty = copy.deepcopy(kept)
    for cell in empty.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    assert shown(execute(empty, folder)) == shown(kept)
    assert list(folder.iterdir()) == [], "a run leaves nothing behind"


def test_a_function_of_a_cell_that_raises_is_named_with_its_line(folder: Path) -> None:
    source = """\
import penstock as ps

def halved(row):
    return {"n": 10 // row["n"]}

job = ps.Job()
rows = job.source("rows", ps.parquet("rows"), columns={"n": "int64"})
rows.map("halved", halved, per="record", columns={"n": "int64"}).sink("output", ps.parquet("out"))
job.run(inputs={"rows": [{"n": 5}, {"n": 0}]}, collect=True)
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    with pytest.raises(nbclient.exceptions.CellExecutionError) as raised:
        execute(notebook, folder)
    told = str(raised.value)
    assert "UserCodeError" in told
    assert "line 4, in halved" in told
    assert "{'n': 0}" in told
