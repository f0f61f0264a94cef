"""Code of documentation pages, run as a reader would run it.

A fence ``python title="job.py"`` is a file that the reader writes. ``text title="python look.py out"`` is what
that command prints; before it the job of the newest ``job.yaml`` is run, if a file has changed since it last ran.
``sh`` is typed as it stands. ``...`` in what is printed stands for anything.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]*)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LEFT = (".penstock", "out", "late", "bad", "first", "second")
WITHIN_S = 120.0


class Block(NamedTuple):
    """A fenced block: its language, its title ("" without one), its text, and the line where it begins."""

    language: str
    title: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Give the fences of a page in order."""
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        language, title, body = found.groups()
        yield Block(language, title or "", body, text.count("\n", 0, found.start()) + 1)


@dataclass(slots=True)
class Reader:
    """Somebody in an empty folder who does what a page says."""

    folder: Path
    changed: bool = False
    ran: int = 0
    unknown: list[Block] = field(default_factory=list)

    def take(self, block: Block) -> None:
        """Do what one block says. Raises AssertionError when it does not do what the page says."""
        if block.language in ("python", "yaml", "toml") and block.title:
            self._write(block)
        elif block.language == "text" and block.title:
            self._compare(block)
        elif block.language == "sh":
            self._type(block)
        else:
            self.unknown.append(block)

    def finish(self) -> None:
        """Run a job whose output the page does not show."""
        if self.changed and (self.folder / "job.py").exists():
            self._run()

    def _write(self, block: Block) -> None:
        if block.title == "job.py":
            self.finish()
        (self.folder / block.title).write_text(block.text)
        if block.title in ("job.py", "job.yaml"):
            self.changed = True
            return
        if block.language == "python" and block.title.startswith("make_"):
            self._python([block.title])

    def _compare(self, block: Block) -> None:
        if self.changed:
            self._run()
        words = shlex.split(block.title)
        assert words[0] == "python", f"line {block.line}: {block.title}"
        told = self._python(words[1:])
        pattern = ".*?".join(re.escape(part) for part in block.text.rstrip().split("..."))
        assert re.fullmatch(pattern, told.rstrip(), re.DOTALL), f"line {block.line}:\n{told}"

    def _type(self, block: Block) -> None:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        command = ["bash", "-euo", "pipefail", "-c", block.text]
        done = subprocess.run(
            command,
            check=False,
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            text=True,
            capture_output=True,
            timeout=WITHIN_S,
        )
        assert done.returncode == 0, f"line {block.line}:\n{done.stdout}{done.stderr}"

    def _run(self) -> None:
        for name in LEFT:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        command = [sys.executable, "-m", "penstock.cli", "run", "job.yaml", "--workers", "1", "--debug"]
        done = subprocess.run(command, check=False, cwd=self.folder, text=True, capture_output=True, timeout=WITHIN_S)
        assert done.returncode == 0, done.stdout + done.stderr
        self.changed = False
        self.ran += 1

    def _python(self, words: list[str]) -> str:
        """Return what a program of the page prints. It runs in this process, which has loaded Arrow."""
        told, before = io.StringIO(), (sys.argv, sys.path, dict(sys.modules))
        sys.argv, sys.path = words, [str(self.folder), *sys.path]  # as Python does for a file
        try:
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(told):
                runpy.run_path(words[0], run_name="__main__")
        finally:
            sys.argv, sys.path, modules = before
            for name in sys.modules.keys() - modules.keys():
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                    del sys.modules[name]
        return told.getvalue()


def session(page: Path, folder: Path) -> list[tuple[Block, int, str]]:
    """Type all ``sh`` blocks of a page into one shell; give each with its exit status and output."""
    typed = [block for block in blocks(page) if block.language == "sh"]
    marked = [f"{block.text}\necho MARK-{number} $?\n" for number, block in enumerate(typed)]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1 </dev/null\n" + "".join(marked)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        text=True,
        capture_output=True,
        timeout=2 * WITHIN_S,
        check=False,
    )
    parts = re.split(r"^MARK-\d+ (\d+)$", done.stdout, flags=re.MULTILINE)
    return [(block, int(parts[2 * i + 1]), parts[2 * i]) for i, block in enumerate(typed)]
