"""JSON lines and CSV as sources: the rules of the kit, and every kind of bad input by file and line."""

import gzip
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.base import limits
from penstock.base.errors import ConfigError, StateError
from penstock.connectors.text_source import TextForm, TextSource, check_text_files
from penstock.ports import Read
from penstock.testing import connectors as kit

SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])
ROWS = 150


def json_line(n: int) -> bytes:
    return b'{"n": %d, "word": "w%d", "more": [1]}\n' % (n, n)


def csv_line(n: int) -> bytes:
    return b'x,"w%d",%d\n' % (n, n)


MAKERS: dict[str, tuple[bytes, Callable[[int], bytes]]] = {
    "json": (b"", json_line),
    "csv": (b"other,word,n\n", csv_line),
}


def source(folder: Path, kind: str) -> TextSource:
    return TextSource(str(folder), TextForm(kind, SCHEMA))


def content(kind: str, rows: int = ROWS, end: str = "\n") -> bytes:
    first, line = MAKERS[kind]
    whole = first + b"".join(line(n) for n in range(rows))
    return whole.replace(b"\n", end.encode())


def packed(data: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(data)
    return bytes(pa.Codec("zstd").compress(data, asbytes=True)) if suffix == ".zst" else data


def rows_of(source: TextSource) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for state in source.splits():
        reader = source.open(state)
        while (read := reader.read(64)) is not None:
            assert isinstance(read, Read)
            found += [(row["n"], row["word"]) for row in read.batch.to_pylist()]
        assert reader.state().finished
        reader.close()
    return found


EXPECTED = [(n, f"w{n}") for n in range(ROWS)]
kinds = pytest.mark.parametrize("kind", ["json", "csv"])


@kinds
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_the_rules_of_a_source(
    tmp_path: Path, kind: str, suffix: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.text_lines.TEXT_BLOCK_BYTES", 300)  # many blocks, each of some lines
    ends = ".jsonl" if kind == "json" else ".csv"
    for file, rows in enumerate((0, 60, 40)):
        (tmp_path / f"{file}{ends}{suffix}").write_bytes(packed(content(kind, rows, end), suffix))
    assert kit.check_source(lambda: source(tmp_path, kind)) == 60 + 40


@kinds
def test_a_byte_order_mark_blank_lines_and_a_last_line_without_end(tmp_path: Path, kind: str) -> None:
    text = b"\xef\xbb\xbf" + content(kind).replace(b'w7"', b'w7"', 1)
    lines = text.split(b"\n")
    odd = b"\n".join([*lines[:5], b"", b"  ", *lines[5:]]).rstrip(b"\n")
    (tmp_path / f"a.{kind}").write_bytes(odd)
    assert rows_of(source(tmp_path, kind)) == EXPECTED
    assert kit.check_source(lambda: source(tmp_path, kind)) == ROWS


@kinds
def test_an_empty_file_has_no_rows(tmp_path: Path, kind: str) -> None:
    (tmp_path / f"a.{kind}").write_bytes(b"")
    (tmp_path / f"b.{kind}").write_bytes(content(kind))
    (tmp_path / f"c.{kind}").write_bytes(b"\n\n")
    made = source(tmp_path, kind)
    if kind == "csv":
        (tmp_path / "c.csv").unlink()  # a file of blank lines has no header
    assert rows_of(made) == EXPECTED


BAD = {
    ("json", "text-for-a-number"): (b'{"n": "x", "word": "a"}', "changed from number to string"),
    ("json", "fraction"): (b'{"n": 1.5}', "couldn't parse:1.5"),
    ("json", "two-objects"): (b'{"n": 1}{"n": 2}', "a line has to be one row"),
    ("json", "array"): (b"[1, 2]", "one JSON object"),
    ("json", "null"): (b"null", "one JSON object"),
    ("json", "broken"): (b'{"n": 1, "wo}', "JSON parse error"),
    ("json", "over-two-lines"): (b'{"n": 1,\n"word": "a"}', "one JSON object"),
    ("json", "no-utf8"): (b'{"n": 1, "word": "\xff"}', "UTF8"),
    ("csv", "text-for-a-number"): (b"x,a,b", "invalid value 'b'"),
    ("csv", "fewer-fields"): (b"x,a", "Expected 3 columns, got 2"),
    ("csv", "more-fields"): (b"x,a,1,2", "Expected 3 columns, got 4"),
    ("csv", "open-quote"): (b'x,"a,1', "a quote is not closed"),
    ("csv", "no-utf8"): (b"x,\xff,1", "UTF8"),
}


@pytest.mark.parametrize(("kind", "what"), BAD, ids=[f"{kind}-{what}" for kind, what in BAD])
def test_a_bad_line_is_named_with_its_file_line_and_reason(tmp_path: Path, kind: str, what: str) -> None:
    bad, why = BAD[kind, what]
    lines = content(kind).split(b"\n")
    lines.insert(100, bad)
    file = tmp_path / f"a.{kind}"
    file.write_bytes(b"\n".join(lines))
    with pytest.raises(StateError) as raised:
        rows_of(source(tmp_path, kind))
    text = str(raised.value)
    assert f"{file}, line 101: " in text
    assert why in text
    kit.check_bad_input(lambda: source(tmp_path, kind), f"a.{kind}, line 101")


def test_a_last_line_that_broke_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(content("json")[:-5])
    kit.check_bad_input(lambda: source(tmp_path, "json"), f"a.jsonl, line {ROWS}")


@kinds
def test_a_line_that_is_too_long_is_named(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.text_lines.TEXT_LINE_BYTES_MAX", 1 << 20)
    (tmp_path / f"a.{kind}").write_bytes(content(kind) + b"x" * (2 * limits.TEXT_BLOCK_BYTES + 9))
    kit.check_bad_input(lambda: source(tmp_path, kind), f"a.{kind}, line ")


@kinds
def test_a_long_line_that_is_allowed_is_a_row(tmp_path: Path, kind: str) -> None:
    word = b"y" * (2 * limits.TEXT_BLOCK_BYTES)
    line = b'{"n": 0, "word": "%s"}\n' % word if kind == "json" else b"x,%s,0\n" % word
    (tmp_path / f"a.{kind}").write_bytes(content(kind) + line)
    assert rows_of(source(tmp_path, kind)) == [*EXPECTED, (0, word.decode())]


@kinds
@pytest.mark.parametrize(
    "spoil",
    [
        Path.unlink,
        lambda file: file.write_bytes(file.read_bytes()[:-10]),
        lambda file: file.write_bytes(file.read_bytes() + b"more"),
        lambda file: file.write_bytes(file.read_bytes().replace(b"w149", b"x149")),
    ],
    ids=["gone", "shrank", "grew", "rewritten"],
)
def test_a_file_that_changes_is_named(tmp_path: Path, kind: str, spoil: Callable[[Path], object]) -> None:
    file = tmp_path / f"b.{kind}"
    file.write_bytes(content(kind))
    kit.check_bad_input(lambda: source(tmp_path, kind), str(file), lambda: spoil(file))


@kinds
def test_a_file_that_shrinks_while_it_is_read_is_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"b.{kind}"
    file.write_bytes(content(kind, 100_000))
    made = source(tmp_path, kind)
    reader = made.open(made.splits()[0])
    assert reader.read(10) is not None
    file.write_bytes(content(kind, 50_000))
    with pytest.raises(StateError, match="shrank from"):
        deque(iter(lambda: reader.read(100_000), None), maxlen=0)


@kinds
def test_a_file_that_grows_while_it_is_read_is_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"b.{kind}"
    file.write_bytes(content(kind))
    made = source(tmp_path, kind)
    reader = made.open(made.splits()[0])
    assert reader.read(10) is not None
    with file.open("ab") as more:
        more.write(MAKERS[kind][1](7))
    with pytest.raises(StateError, match="grew from"):
        deque(iter(lambda: reader.read(1000), None), maxlen=0)


def test_a_packed_file_that_broke_off_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content("json", 5000))[:-20])
    kit.check_bad_input(lambda: source(tmp_path, "json"), "a.jsonl.gz")


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (b"a,word\n1,2\n", "line 1: there is no column 'n'|line 1: .*'n'"),
        (b"n,word,n\n1,a,2\n", "line 1: two columns are named 'n'"),
    ],
)
def test_a_header_that_does_not_fit_is_refused_before_the_job_runs(tmp_path: Path, header: bytes, says: str) -> None:
    (tmp_path / "a.csv").write_bytes(header)
    with pytest.raises(ConfigError, match=says):
        check_text_files(tmp_path, TextForm("csv", SCHEMA))


def test_a_folder_without_files_says_what_it_looked_for(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    with pytest.raises(ConfigError, match=r"has no \*\.jsonl file; passed over: a\.csv \(another ending\)"):
        source(tmp_path, "json").splits()
