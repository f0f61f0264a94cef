"""One-line faults of what publishes to tables of files. Their rules are in ``publisher_mutants.py``."""

from sim.mutants.rules import Mutant, line

_DELTA = "penstock.connectors.delta.marked_versions"
_NAMES = "penstock.connectors.tables.copied_names"
_MARK = "self._mark(snapshot, wanted.epoch, _number(wanted.digest), adds)"
_ADD_ALONE = "self._place.commit(snapshot, adds, {}, note)"
_ADD = "self._place.commit(snapshot, adds, {self._id: int(epoch), self._digest_id: digest}, note)"

OF_TABLES = (
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
            "for add in [[each] for each in adds] or [[]]: "
            + _MARK.replace("snapshot", "self._open()").replace("adds", "add"),
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
        line(_DELTA, "if why is not None and adds:", "if False:"),
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
        0,
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
