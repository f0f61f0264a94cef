"""Spark's driver as the operator makes it: a read-only root, and only ``/tmp`` is written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock_spark.java import java_home

ROOT = Path(__file__).resolve().parents[3]
# Everything is made read-only but /tmp, which is empty; then what a pod starts is started. Sources that
# are below /tmp, as in some builds, stay where they are.
APART = """
mount --make-rprivate /
mount -t tmpfs tmpfs /mnt
case $0 in /tmp/*) mkdir -p "/mnt${0#/tmp}" && mount --bind "$0" "/mnt${0#/tmp}" ;; esac
mount --move /mnt /tmp
places=$(cut -d' ' -f5 /proc/self/mountinfo | grep -vE '^/(tmp$|proc|sys|dev)' | sort -r)
for place in $places; do mount -o remount,ro,bind "$place"; done 2>/dev/null
cd /tmp
exec "$@"
"""
MAIN = """
import os
from penstock_spark.session import local_session

for folder in ("/", "/var", "/usr"):
    try:
        open(os.path.join(folder, "written"), "w")
    except OSError as error:
        print("refused", error.errno)
with local_session("root") as spark:
    print("sum", spark.sparkContext.parallelize(range(100), 2).map(lambda n: n + 1).sum())
"""


@pytest.mark.skipif(
    shutil.which("unshare") is None or os.geteuid() != 0,
    reason="needs root and unshare",
)
def test_a_driver_writes_to_its_tmp_alone() -> None:
    home = Path(pyspark.__file__).parent
    main = Path("/dev/shm", f"penstock-driver-{os.getpid()}.py")  # not below /tmp
    main.write_text(MAIN)
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "HOME": "/tmp",
    }
    submit = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--deploy-mode", "client"]
    settings = ["--driver-memory", "512m", "--conf", "spark.ui.enabled=false", str(main)]
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", APART, str(ROOT), *submit, *settings],
            env=environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
    finally:
        main.unlink()
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["refused 30"] * 3 + ["sum 5050"]
