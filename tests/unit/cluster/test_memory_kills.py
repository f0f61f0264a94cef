"""The kernel's count of processes that memory ended, in the files of both versions."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cluster.memory_kills import MemoryKills, MemoryWitness

EVENTS = "low 0\nhigh 0\nmax 812\noom 9\noom_kill {}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"
EATER = "x = []\nwhile True: x.append(bytearray(1 << 20))"
GROUPS_V1 = Path("/sys/fs/cgroup/memory")
GROUPS_V2 = Path("/sys/fs/cgroup")
LIMIT = 64 << 20


def machine(root: Path, groups: str, files: dict[str, str]) -> MemoryKills:
    for name, text in {"proc/self/cgroup": groups, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return MemoryKills(str(root))


LAYOUTS = {
    "version 2 in a container": ("0::/\n", "", "memory.events", EVENTS, "memory.max"),
    "version 2 by its path": ("0::/pods/p1\n", "pods/p1/", "memory.events", EVENTS, "memory.max"),
    "version 1 by its path": (
        "9:cpu:/\n4:memory:/pods/p1\n0::/\n",
        "memory/pods/p1/",
        "memory.oom_control",
        CONTROL,
        "memory.limit_in_bytes",
    ),
    "version 1 in a container": (
        "4:memory:/kubepods/of/the/node\n",
        "memory/",
        "memory.oom_control",
        CONTROL,
        "memory.limit_in_bytes",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_count_and_limit_are_found_where_the_machine_has_them(layout: str, tmp_path: Path) -> None:
    groups, folder, counts, text, limit = LAYOUTS[layout]
    at = f"sys/fs/cgroup/{folder}"
    kills = machine(tmp_path, groups, {at + counts: text.format(3), at + limit: f"{LIMIT}\n"})
    assert (kills.count(), kills.limit()) == (3, LIMIT)
    witness = MemoryWitness(kills)
    assert witness.says(-9) == ""
    (tmp_path / (at + counts)).write_text(text.format(4))
    assert witness.says(-9) == "limit 64 MiB"
    assert witness.says(-11) == ""
    assert witness.says(0) == ""


def test_no_limit_and_no_count_are_nothing(tmp_path: Path) -> None:
    nowhere = MemoryKills(str(tmp_path))
    assert (nowhere.count(), nowhere.limit()) == (0, None)
    files = {"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/memory.events": EVENTS.format(1)}
    unlimited = machine(tmp_path, "0::/\n", files)
    assert (unlimited.count(), unlimited.limit()) == (1, None)


@pytest.fixture
def group() -> Iterator[Path]:
    """Give a control group of 64 MiB; skips where this process may make none."""
    parent = GROUPS_V1 if GROUPS_V1.is_dir() else GROUPS_V2
    made = parent / f"penstock-test-{os.getpid()}"
    limit = "memory.limit_in_bytes" if parent == GROUPS_V1 else "memory.max"
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    try:
        try:
            (made / limit).write_text(str(LIMIT))
        except OSError as error:
            pytest.skip(f"control groups have no limit of memory here: {error}")
        yield made
    finally:
        made.rmdir()


WITNESS = """
import subprocess, sys
from penstock.cluster.memory_kills import MemoryKills, MemoryWitness
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
for code in sys.argv[2:]:
    witness = MemoryWitness(MemoryKills())
    print(repr(witness.says(subprocess.Popen([sys.executable, "-c", code]).wait())))
"""


def test_a_real_kernel_is_understood(group: Path) -> None:
    by_hand = "import os; os.kill(os.getpid(), 9)"
    command = [sys.executable, "-c", WITNESS, str(group), EATER, by_hand]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["'limit 64 MiB'", "''"], done.stderr
