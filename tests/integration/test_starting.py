"""What happens before a job runs: cheap imports, and user code in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock.cli.preflight import Begins, check_before_start
from penstock.graph import read_job_file


def test_user_code_is_checked_in_a_process_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    head = "apiVersion: penstock.dev/v1alpha1\nkind: StreamJob\nmetadata: {name: j}\nspec:\n"
    file.write_text(head + "  job: {entrypoint: 'nothing_there:job'}\n")
    with pytest.raises(ConfigError, match=r"job\.yaml:5: .*there is no module 'nothing_there'"):
        check_before_start(read_job_file(file), file, [], Begins(tmp_path))


def test_the_command_line_and_the_api_import_neither_arrow_nor_numba() -> None:
    code = (
        "import sys, penstock.cli.app, penstock.cli.preflight, penstock.cli.local_settings, penstock as ps\n"
        "import penstock.supervisor\n"
        "ps.Job, ps.count, ps.parquet\n"
        "print([m for m in ('pyarrow', 'numba', 'numpy', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_imports_no_message_and_no_field_of_a_job() -> None:
    code = (
        "import sys, penstock.cli.app as cli\n"
        "cli.make_app()\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('msgspec', 'rich', 'grpc', 'httpx')"
        " or m.startswith('penstock.') and m.split('.')[1] not in ('base', 'cli')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
