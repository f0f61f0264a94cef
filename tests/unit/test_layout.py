"""Guards the shape of the repository: each hazard here was met and breaks at a distance."""

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("worker", "operator", "spark")
IMPORTED_BY_THE_OPERATOR = ("penstock.base.errors", "penstock.contract.ids")


def run_python(*arguments: str) -> str:
    ran = subprocess.run([sys.executable, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_is_not_a_package(root: str) -> None:
    assert not (REPOSITORY / root / "__init__.py").exists()


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_no_tests_below_a_source_root(root: str) -> None:
    # In importlib mode pytest would register operator/ itself as the module `operator`.
    files = [path.name for path in (REPOSITORY / root).rglob("*.py")]
    assert [name for name in files if re.match(r"test_|conftest\.py$", name)] == []


def test_operator_is_the_standard_librarys() -> None:
    found = Path(run_python("-c", "import operator; print(operator.__file__)"))
    assert found.parent == Path(sysconfig.get_paths()["stdlib"])


def test_every_package_says_what_belongs_there() -> None:
    silent = [
        str(path.relative_to(REPOSITORY))
        for root in SOURCE_ROOTS
        for path in (REPOSITORY / root).rglob("__init__.py")
        if not path.read_text().startswith('"""')
    ]
    assert silent == []


def test_the_contract_is_light() -> None:
    # The operator and the keeper import it: neither has, or wants to load, Arrow and numba.
    imports = ", ".join(IMPORTED_BY_THE_OPERATOR)
    loaded = run_python("-c", f"import sys, {imports}; print(*sys.modules)").split()
    heavy = {"pyarrow", "numpy", "numba", "grpc", "rocksdict", "asyncio"}
    assert heavy.isdisjoint(loaded)


def test_the_wheel_holds_every_package_and_nothing_else() -> None:
    # hatchling silently skips a folder that is missing, so a typo would drop a package.
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    packages = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    found = [
        f"{root}/{path.name}"
        for root in SOURCE_ROOTS
        for path in (REPOSITORY / root).iterdir()
        if (path / "__init__.py").exists()
    ]
    assert sorted(packages) == sorted(found)
    assert all((REPOSITORY / package / "py.typed").exists() for package in packages)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-build.lock"])
def test_locks_have_hashes_and_no_addresses(name: str) -> None:
    text = (REPOSITORY / name).read_text()
    entries = [line for line in text.splitlines() if re.match(r"[a-z0-9]", line)]
    assert entries
    assert all(re.match(r"[a-z0-9_.-]+==\S+ .*\\$", line) for line in entries)
    assert text.count("--hash=sha256:") >= len(entries)
    assert "://" not in text


def test_the_lock_holds_every_dependency() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [project["dependencies"], *project["optional-dependencies"].values()]
    names = {re.split(r"[<>=!~\[ ]", entry)[0].lower() for extra in wanted for entry in extra}
    locked = {line.split("==")[0] for line in (REPOSITORY / "requirements.lock").read_text().splitlines()}
    assert names <= locked


def test_make_lists_its_commands() -> None:
    ran = subprocess.run(["make"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert {"make setup", "make test", "make check"} <= set(re.findall(r"make [a-z]+", ran.stdout))
