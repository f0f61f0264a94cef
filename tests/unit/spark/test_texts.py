from pathlib import Path

import pytest

from penstock.base.errors import ConfigError
from penstock_spark import texts


def make(folder: Path, **sizes: int) -> None:
    for name, size in sizes.items():
        file = folder / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x" * size)


def test_text_is_found_by_pattern_in_the_order_of_names(tmp_path: Path) -> None:
    make(tmp_path, b_py=1, a_txt=2, c_md=3, sub__d_py=4)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.py").write_text("no")
    found = texts.find_text([tmp_path], texts.PATTERNS, None)
    assert [f.name for f in found] == ["0/a.txt", "0/b.py", "0/sub/d.py"]


def test_packages_below_the_standard_library_are_listed_once(tmp_path: Path) -> None:
    make(tmp_path, os_py=1, site__pkg_py=1)
    found = texts.find_text([tmp_path, tmp_path / "site"], texts.PATTERNS, None)
    assert [f.name for f in found] == ["0/os.py", "1/pkg.py"]


def test_size_bounds_the_text_but_leaves_one_file(tmp_path: Path) -> None:
    make(tmp_path, a_py=10, b_py=10, c_py=10)
    assert [f.name for f in texts.find_text([tmp_path], ["*.py"], 20)] == ["0/a.py", "0/b.py"]
    assert [f.name for f in texts.find_text([tmp_path], ["*.py"], 5)] == ["0/a.py"]


def test_a_missing_folder_and_an_empty_one_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no folder .*nowhere"):
        texts.find_text([tmp_path / "nowhere"], ["*.py"], None)
    with pytest.raises(ConfigError, match=r"no file like \*\.py under .*--pattern"):
        texts.find_text([tmp_path], ["*.py"], None)


def test_cut_keeps_order_and_balances_bytes() -> None:
    files = [texts.TextFile(str(i), str(i), 1 + i % 3) for i in range(20)]
    pieces = texts.cut(files, 4)
    assert [f for piece in pieces for f in piece] == files
    assert len(pieces) == 4
    assert all(7 <= sum(f.size for f in piece) <= 13 for piece in pieces)


def test_cut_makes_no_empty_pieces() -> None:
    files = [texts.TextFile("a", "a", 100), texts.TextFile("b", "b", 0)]
    assert [f for piece in texts.cut(files, 8) for f in piece] == files
    assert all(texts.cut(files, 8))
    assert texts.cut(files[:1], 8) == [(files[0],)]


def test_lines_keep_everything_but_their_ends(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one  two \n\n\xff\r\nlast")
    assert texts.lines_of(str(file)) == ["one  two ", "", "\ufffd\r", "last"]
    file.write_bytes(b"")
    assert texts.lines_of(str(file)) == []
