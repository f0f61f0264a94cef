"""Images are made on what is named by digest: the files, and the command that builds them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.images import complaints, dockerfiles

ROOT = Path(__file__).resolve().parent.parent.parent
DIGEST = "@sha256:" + "0f" * 32


@pytest.mark.parametrize(
    "text",
    [
        f"FROM python:3.11{DIGEST}\n",
        f"FROM --platform=linux/amd64 python{DIGEST} AS build\nFROM build\n",
        "FROM scratch\n",
        "ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS build\nFROM $BASE_IMAGE\nCOPY --from=build /a /b\n",
        f"ARG BASE_IMAGE=python{DIGEST}\nFROM ${{BASE_IMAGE}}\n",
        "# FROM python:3.11\nARG B\nFROM ${B}\nRUN echo \\\n  # FROM python:3.11\n  done\n",
        "ARG B\nFROM ${B} AS a\nFROM ${B}\nCOPY --from=0 /a /b\n",
    ],
)
def test_what_is_named_by_digest_is_taken(text: str) -> None:
    assert complaints("Dockerfile", text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FROM python:3.11\n", "Dockerfile:1: python:3.11 is named by no digest"),
        ("from python\n", "Dockerfile:1: python is named by no digest"),
        ("FROM python@sha256:0f\n", "Dockerfile:1: python@sha256:0f is named by no digest"),
        ("ARG B=python:3.11\nFROM ${B}\n", "Dockerfile:2: the default of B, python:3.11, is named"),
        ("FROM ${B}\n", "Dockerfile:1: ${B} is no argument of this file"),
        ("FROM ${B}:3.11\n", "Dockerfile:1: ${B}:3.11 is named by no digest"),
        ("ARG B\nFROM \\\n  python:3.11\n", "Dockerfile:2: python:3.11 is named by no digest"),
        ("FROM scratch\nCOPY --from=python:3.11 /a /b\n", "Dockerfile:2: python:3.11 is named"),
        ("FROM scratch\nRUN --mount=type=bind,from=python:3 a\n", "Dockerfile:2: python:3 is"),
    ],
)
def test_a_tag_is_refused_wherever_it_stands(text: str, said: str) -> None:
    (found,) = complaints("Dockerfile", text)
    assert found.startswith(said)


def test_every_file_that_an_image_is_made_from_is_looked_at() -> None:
    names = {str(path.relative_to(ROOT)) for path in dockerfiles(ROOT)}
    assert {
        "Dockerfile.operator",
        "Dockerfile.spark",
        "Dockerfile.worker",
        "e2e/cluster/node/Dockerfile",
        "e2e/cluster/node/proxy.Dockerfile",
        "e2e/cluster/spark-operator.Dockerfile",
    } <= names


def build(folder: Path, base: str) -> subprocess.CompletedProcess[str]:
    """Run the command that builds images, with a builder that notes what it is asked for."""
    builder = folder / "docker"
    builder.write_text(f'#!/bin/sh\necho "$@" >>{folder}/asked\n')
    builder.chmod(0o755)
    settings = {"BASE_IMAGE": base, "BUILDER": "docker", "TAG": "t"}
    return subprocess.run(
        ["sh", "tools/image.sh"],
        cwd=ROOT,
        env={**os.environ, **settings, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("base", ["", "python:3.11", "python@sha256:0f", "python:localhost/"])
def test_nothing_is_built_on_an_image_that_may_change(tmp_path: Path, base: str) -> None:
    done = build(tmp_path, base)
    assert done.returncode == 1
    assert "names no image by its digest" in done.stderr
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize("base", [f"python{DIGEST}", "localhost/penstock-base:bookworm-0f"])
def test_an_image_by_digest_or_of_this_machine_is_built_on(tmp_path: Path, base: str) -> None:
    build(tmp_path, base)
    assert f"--build-arg BASE_IMAGE={base} " in (tmp_path / "asked").read_text()


IMPORT_ALL = """
import pkgutil, importlib, penstock, penstock_operator
assert penstock.__file__.startswith({source!r}), penstock.__file__
for found in pkgutil.walk_packages(penstock_operator.__path__, "penstock_operator."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""


def test_the_operators_image_has_every_module_that_the_operator_imports(tmp_path: Path) -> None:
    for line in (ROOT / "Dockerfile.operator").read_text().splitlines():
        keyword, *words = line.split() or [""]
        if keyword == "COPY" and words[-1].startswith("/source/penstock"):
            copy(words[:-1], tmp_path / words[-1].removeprefix("/source/"))
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL.format(source=str(tmp_path))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def copy(sources: list[str], target: Path) -> None:
    """Copy as a Dockerfile does: the content of one folder, or files into a folder."""
    for source in sources:
        found = ROOT / source
        if found.is_dir():
            shutil.copytree(found, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, target)
