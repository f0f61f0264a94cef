"""The C library's settings are known, or it is said that they are not."""

import platform
import subprocess
import sys

PROGRAM = "from penstock.engine.memory import keep_freed_memory; print(keep_freed_memory())"


def test_freed_memory_is_kept_where_the_library_is_glibc() -> None:
    # In a process of its own: the setting is the whole process's, and cannot be undone.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(platform.libc_ver()[0] == "glibc")
