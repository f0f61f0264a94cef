from pathlib import Path

from typer.testing import CliRunner

from penstock.base.errors import ConfigError
from penstock.cli.app import make_app


def write(root: Path) -> Path:
    (root / "words").mkdir(mode=0o700)
    for worker in range(2):
        folder = root / "words" / "workers" / str(worker)
        folder.mkdir(parents=True)
        (folder / "log").write_text(f"first of {worker}\nlast of {worker}\n")
    (root / "words" / "supervisor.log").write_text("started\n")
    return root


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(make_app(), ["logs", *arguments])
    return done.exit_code, done.output


def test_the_newest_lines_of_every_process(tmp_path: Path) -> None:
    found = run("words", "--tail", "1", "--dir", str(write(tmp_path)))
    assert found == (0, "supervisor started\nworker-0 last of 0\nworker-1 last of 1\n")


def test_one_worker(tmp_path: Path) -> None:
    found = run("words", "-w", "1", "--dir", str(write(tmp_path)))
    assert found == (0, "worker-1 first of 1\nworker-1 last of 1\n")


def test_a_folder_that_others_may_write_to_is_not_read(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "words").chmod(0o1777)
    done = CliRunner().invoke(make_app(), ["logs", "words", "--dir", str(tmp_path)])
    assert isinstance(done.exception, ConfigError)
    assert "has mode 1777, so other users of this machine may enter it" in str(done.exception)
    assert done.output == ""
