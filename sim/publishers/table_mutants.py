"""One-line faults of what publishes to tables of files. Their rules are in ``publisher_mutants.py``."""

from sim.mutants.rules import Mutant, line

_DELTA = "penstock.connectors.delta.marked_versions"
_NAMES = "penstock.connectors.tables.copied_names"
_MARK = "self._mark(snapshot, wanted.epoch, _number(wanted.digest), [file.action for file in files])"
_ICEBERG = "penstock.connectors.iceberg.marked_snapshots"
_CLIENT = "penstock.connectors.iceberg.client"
_SNAPSHOT = "self._mark(snapshot, wanted.epoch, wanted.digest, files)"
_COMMIT = 'self._place.commit(snapshot, added, {self._id: f"{int(epoch)} {digest}"}, note)'
_FOUND = "found = None if marker is None else OutputMarker(*marker, wanted.blocks)"
_SEND = "transaction.commit_transaction()"
_ADD_ALONE = "self._place.commit(snapshot, adds, {}, note)"
_ADD = "self._place.commit(snapshot, adds, {self._id: int(epoch), self._digest_id: digest}, note)"

OF_DELTA = (
    Mutant(
        "marker-of-a-table-behind-its-files",
        "marker-inside",
        line(
            _DELTA,
            _ADD,
            f"if adds: {_ADD_ALONE}; snapshot, adds = self._open(), []\n        {_ADD}",
        ),
        "plain-delta",
        0,
    ),
    Mutant(
        "each-file-is-a-commit",
        "whole",
        line(
            _DELTA,
            _MARK,
            "for some in [[each] for each in files] or [[]]: "
            + _MARK.replace("snapshot", "self._open()").replace("in files", "in some"),
        ),
        "plain-delta",
        0,
    ),
    Mutant(
        "committed-on-a-newer-version",
        "same-snapshot",
        line(_DELTA, _MARK, _MARK.replace("snapshot", "self._open()")),
        "plain-delta",
        4,
    ),
    Mutant(
        "columns-are-looked-at-once",
        "same-snapshot",
        line(_DELTA, "if (why := file.unfit(snapshot, self._where)) is not None:", 'if why := "":'),
        "less-delta",
        0,
    ),
    Mutant(
        "old-copies-are-used-again",
        "staged-home",
        line(_NAMES, "if not self._fresh or monotonic() > self._until:", "if not self._fresh:"),
        "others-delta",
        35,
    ),
    Mutant(
        "copies-have-one-name-for-ever",
        "staged-home",
        line(_NAMES, "self._fresh = uuid4().hex[-FRESH_CHARS:]", 'self._fresh = "0"'),
        "others-delta",
        15,
    ),
    Mutant(
        "a-commit-that-fails-is-done",
        "unknown-reads",
        line(
            "penstock.connectors.delta.client", 'raise StorageError(f"delta: {self.url}: {said}") from error', "return"
        ),
        "others-delta",
        4,
    ),
    Mutant(
        "other-output-of-a-version-is-done",
        "marker-ahead",
        line(_DELTA, "same = digest == _number(wanted.digest)", "same = True"),
        "old-delta",
        0,
    ),
    Mutant(
        "lost-marker-of-a-version-is-an-old-one",
        "marker-lost",
        line(_DELTA, "found = None", 'found = OutputMarker(wanted.known, "", 0)'),
        "lost-delta",
        49,
    ),
    Mutant(
        "first-marker-of-a-version-is-zero",
        "marker-seeded",
        line(_DELTA, "self._mark(snapshot, visible, 0, [])", "self._mark(snapshot, Epoch(0), 0, [])"),
        "rest-delta",
        7,
    ),
    Mutant(
        "given-up-version-without-marker",
        "drop-marks",
        line(_DELTA, "if not done:", "if not done and visible < wanted.blocks:"),
        "given-up-delta",
        0,
    ),
    Mutant(
        "nulls-are-staged",
        "refused-early",
        line(
            "penstock.connectors.delta.delta_columns",
            "return staged_rows(batch, self.staged, not_null, self.where)",
            "return staged_rows(batch, self.staged, (), self.where)",
        ),
        "early-delta",
        0,
    ),
)
OF_ICEBERG = (
    Mutant(
        "marker-of-a-snapshot-behind-its-files",
        "marker-inside",
        line(
            _ICEBERG,
            _COMMIT,
            "if added: self._place.commit(snapshot, added, {}, note); snapshot, added = self._place.open(), []\n"
            f"        {_COMMIT}",
        ),
        "plain-iceberg",
        0,
    ),
    Mutant(
        "each-file-is-a-snapshot",
        "whole",
        line(
            _ICEBERG,
            _SNAPSHOT,
            "for file in [[each] for each in files] or [[]]: "
            + _SNAPSHOT.replace("snapshot", "self._place.open()").replace("files", "file"),
        ),
        "plain-iceberg",
        0,
    ),
    Mutant(
        "committed-on-a-newer-snapshot",
        "same-snapshot",
        line(_ICEBERG, _SNAPSHOT, _SNAPSHOT.replace("snapshot", "self._place.open()")),
        "plain-iceberg",
        17,
    ),
    Mutant(
        "the-client-tries-on-a-newer-snapshot",
        "same-snapshot",
        line(_CLIENT, 'table.metadata.properties[RETRIES] = "0"', "pass"),
        "plain-iceberg",
        1,
    ),
    Mutant(
        "a-marker-alone-makes-no-snapshot",
        "same-snapshot",
        line(_CLIENT, "producer.commit()", "if files: producer.commit()"),
        "rest-iceberg",
        3,
    ),
    Mutant(
        "columns-of-a-snapshot-are-looked-at-once",
        "same-snapshot",
        line(_ICEBERG, "if (why := file.unfit(snapshot, self._where)) is not None:", 'if why := "":'),
        "less-iceberg",
        2,
    ),
    Mutant(
        "copies-for-a-snapshot-have-one-name-for-ever",
        "staged-home",
        line(
            _ICEBERG,
            "name = self._names.name(epoch, index, block)",
            'name = f"{epoch}-{index}-{block.part.sha256}.parquet"',
        ),
        "others-iceberg",
        60,
    ),
    Mutant(
        "a-refused-snapshot-is-done",
        "unknown-reads",
        line(_CLIENT, 'raise StorageError(f"{self._where}: {said}") from error', "return"),
        "others-iceberg",
        1,
    ),
    Mutant(
        "a-commit-without-an-answer-is-done",
        "unknown-reads",
        line(
            _CLIENT,
            _SEND,
            f"try: {_SEND}\n            except Exception as error:\n"
            "                if isinstance(error, library().CommitFailedException): raise",
        ),
        "plain-iceberg",
        1,
    ),
    Mutant(
        "copies-of-a-commit-without-an-answer-are-removed",
        "unknown-reads",
        line(
            _CLIENT,
            _SEND,
            f"try: {_SEND}\n            except Exception:\n"
            "                for file in files: table.io.delete(file.file_path)\n"
            "                raise",
        ),
        "plain-iceberg",
        4,
    ),
    Mutant(
        "a-marker-goes-with-its-snapshot",
        "marker-stays",
        line(
            _ICEBERG,
            "text = snapshot.properties.get(self._id)",
            "newest = snapshot.table.current_snapshot(); text = snapshot.properties.get(self._id)"
            ' if newest and newest.summary.additional_properties.get("penstock.sink") else None',
        ),
        "others-iceberg",
        0,
    ),
    Mutant(
        "other-output-of-a-snapshot-is-done",
        "marker-ahead",
        line(_ICEBERG, _FOUND, _FOUND.replace("*marker", "marker[0], wanted.digest")),
        "old-iceberg",
        0,
    ),
    Mutant(
        "lost-marker-of-a-snapshot-is-an-old-one",
        "marker-lost",
        line(_ICEBERG, _FOUND, _FOUND.replace("None if", 'OutputMarker(wanted.known, "", 0) if')),
        "lost-iceberg",
        21,
    ),
    Mutant(
        "first-marker-of-a-snapshot-is-zero",
        "marker-seeded",
        line(_ICEBERG, "self._mark(snapshot, visible, SEEDED, [])", "self._mark(snapshot, Epoch(0), SEEDED, [])"),
        "rest-iceberg",
        4,
    ),
    Mutant(
        "given-up-snapshot-without-marker",
        "drop-marks",
        line(_ICEBERG, "if not done:", "if not done and visible < wanted.blocks:"),
        "given-up-iceberg",
        7,
    ),
    Mutant(
        "nulls-are-staged-for-a-snapshot",
        "refused-early",
        line(
            "penstock.connectors.iceberg.iceberg_sink",
            "return staged_rows(batch, self._staged, self._not_null, self._where)",
            "return staged_rows(batch, self._staged, (), self._where)",
        ),
        "early-iceberg",
        0,
    ),
)
OF_TABLES = (*OF_DELTA, *OF_ICEBERG)
