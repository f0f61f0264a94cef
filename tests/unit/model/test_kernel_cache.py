"""All kernels are compiled beforehand; those that several processes need at once are compiled by one of them."""

import fcntl
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model import kernels
from penstock.model.kernels.jit import INT, Kernel, cache_folder
from penstock.model.kernels.place import folder_of_version, is_compiling


def _twice(number: int) -> int:
    return 2 * number


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return an empty cache folder that is the project's for this test."""
    monkeypatch.setenv("PENSTOCK_KERNEL_CACHE", str(tmp_path))
    forget()
    yield cache_folder()
    forget()


def forget() -> None:
    cache_folder.cache_clear()
    folder_of_version.cache_clear()


def test_the_kernels_of_every_module_are_compiled_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [file.read_text() for file in Path(kernels.__path__[0]).glob("*.py")]
    declared = [name for source in sources for name in re.findall(r"^@kernel\(.*\ndef (\w+)", source, re.MULTILINE)]
    compiled = list[str]()
    monkeypatch.setattr(Kernel, "compile", lambda kernel: compiled.append(kernel.__name__))
    assert kernels.compile_all() == len(compiled) >= len(declared) > 50
    assert set(declared) <= set(compiled)


def test_a_kernel_that_another_process_compiles_is_left_alone(folder: Path) -> None:
    kernel = Kernel(_twice, INT(INT))
    with (folder / "test_kernel_cache._twice.lock").open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert not kernel.try_compile()
        assert not list(folder.rglob("*.nbi"))
    assert kernel.try_compile()
    assert list(folder.rglob("*.nbi"))
    assert kernel(21) == 42


def test_a_first_compilation_is_detected(folder: Path) -> None:
    kernel = Kernel(_twice, INT(INT))
    assert not is_compiling(folder)
    with (folder / "test_kernel_cache._twice.lock").open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert is_compiling(folder)
    assert not is_compiling(folder)
    assert kernel.try_compile()
    with (folder / "test_kernel_cache._twice.lock").open("w") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        assert not is_compiling(folder), "it is loaded, which takes 5 ms"
    assert not is_compiling(folder / "none")
