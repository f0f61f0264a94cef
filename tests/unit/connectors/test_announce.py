"""Announcements of workers that take pushed rows."""

import os
from pathlib import Path

from penstock.connectors.announce import SUFFIX, Announcement, announce, read_announcements, read_owners


def test_the_owner_of_a_partition_is_the_worker_that_announced_it_last(tmp_path: Path) -> None:
    before, after = Announcement("grpc://before", 3, (0, 1, 2)), Announcement("grpc://after", 3, (1,))
    for written_s, life, known in ((1_000, "b", before), (2_000, "a", after)):
        announce(tmp_path, life, known)
        os.utime(tmp_path / f"{life}{SUFFIX}", (written_s, written_s))
    assert read_announcements(tmp_path) == [after, before]
    assert read_owners(tmp_path) == {0: "grpc://before", 1: "grpc://after", 2: "grpc://before"}
    os.utime(tmp_path / f"b{SUFFIX}", (3_000, 3_000))
    assert read_owners(tmp_path) == dict.fromkeys(range(3), "grpc://before")
