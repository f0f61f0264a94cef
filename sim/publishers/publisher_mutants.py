"""One-line faults of what publishes, by the rule that they break, each with the scenario that notices it."""

from sim.mutants.rules import Mutant, line
from sim.publishers.table_mutants import OF_TABLES

RULES = {
    "fence-first": "the marker is read behind the fence, and again under the lock",
    "late-requests": "a late request changes no later transaction",
    "marker-inside": "rows and marker come in one step",
    "marker-rises": "of an epoch with visible blocks the others are written",
    "marker-ahead": "a marker of other output, or of a higher epoch, is an error",
    "marker-lost": "a marker that was known and is gone is an error; what takes its place says what was known",
    "marker-stays": "what others write, and what they remove of the past of a table, does not touch the marker",
    "marker-seeded": "a first marker says up to which epoch output is visible when it is written",
    "drop-marks": "output that is given up has its marker, so nobody can publish it later",
    "refused-early": "what the target is known to refuse is refused when it is written",
    "whole": "a table gets all output of an epoch by one commit, which has the marker",
    "same-snapshot": "a commit is made on the snapshot in which marker and columns were looked at",
    "staged-home": "files that no commit has added do not wait at the table",
    "unknown-reads": "after a commit that fails, or has an unknown end, the marker is read again",
    "skip-refused": "Skip leaves out the refused rows only, and a successor that it has fenced loses nothing",
}
_TABLE = "penstock.connectors.postgres.marked_table"
_TOPIC = "penstock.connectors.kafka.marked_topic"
_MARKED = "penstock.protocol.marked"
_FENCE = "self._producer.init_transactions(2 * ANSWER_MAX_S)"
_OFFSETS = "self._producer.send_offsets_to_transaction([at], self._consumer.consumer_group_metadata(), ANSWER_MAX_S)"
_SAME = "if found.epoch == wanted.epoch and found.digest == wanted.digest:"
_LOOK = "visible = visible_blocks(found, wanted, self._where)"
_INSERT = "left_out = self._insert(session, wanted.how)"
_LARGE = "if largest + RECORD_OVERHEAD_BYTES > (bytes_max := self._rules.bytes_max):"
_LOCKED = 'found = self._marker(session, " FOR UPDATE")'
MUTANTS = {
    mutant.name: mutant
    for mutant in (
        *OF_TABLES,
        Mutant(
            "marker-before-the-fence",
            "fence-first",
            line(_TOPIC, _FENCE, f"self._marker = self._read(); {_FENCE}; return"),
            "plain-topic",
            6,
        ),
        Mutant(
            "transaction-after-a-lost-connection",
            "late-requests",
            line(_TOPIC, "if self._lost_touch():", "if False:"),
            "plain-topic",
            142,
        ),
        Mutant("marker-without-its-lock", "fence-first", line(_TABLE, _LOCKED, "found = found"), "plain-table", 0),
        Mutant(
            "marker-behind-its-records",
            "marker-inside",
            line(_TOPIC, _OFFSETS, f"self._producer.commit_transaction(ANSWER_MAX_S); {_OFFSETS}"),
            "plain-topic",
            0,
        ),
        Mutant(
            "marker-beside-the-rows",
            "marker-inside",
            line(_TABLE, _INSERT, f'{_INSERT}; session.run("COMMIT"); session.run("BEGIN")'),
            "plain-table",
            0,
        ),
        Mutant(
            "some-blocks-are-all",
            "marker-rises",
            line(_MARKED, "return found.blocks", "return wanted.blocks"),
            "plain-topic",
            0,
        ),
        Mutant(
            "other-output-of-an-epoch-is-done",
            "marker-ahead",
            line(_MARKED, _SAME, "if found.epoch == wanted.epoch:"),
            "old-topic",
            0,
        ),
        Mutant(
            "a-higher-epoch-is-done",
            "marker-ahead",
            line(_MARKED, _SAME, _SAME.replace("if ", "if found.epoch > wanted.epoch or ")),
            "old-table",
            0,
        ),
        Mutant(
            "lost-is-not-done",
            "marker-lost",
            line(_MARKED, "if wanted.how is Unpublished.PUBLISH:", "if True:"),
            "lost-topic",
            49,
        ),
        Mutant(
            "lost-marker-begins-anew",
            "marker-lost",
            line(_TABLE, "self._seed(session, wanted.known)", "self._seed(session, Epoch(0))"),
            "lost-table",
            91,
        ),
        Mutant(
            "first-marker-of-a-topic-is-zero",
            "marker-seeded",
            line(
                _TOPIC, 'self._commit(OutputMarker(visible, "seed", 0))', 'self._commit(OutputMarker(Epoch(0), "", 0))'
            ),
            "rest-topic",
            10,
        ),
        Mutant(
            "first-marker-of-a-table-is-zero",
            "marker-seeded",
            line(_TABLE, "self._seed(session, visible)", "self._seed(session, Epoch(0))"),
            "rest-table",
            12,
        ),
        Mutant(
            "given-up-topic-without-marker",
            "drop-marks",
            line(_TOPIC, "self._commit(wanted.marker)", "self._producer.commit_transaction(ANSWER_MAX_S)"),
            "given-up-topic",
            44,
        ),
        Mutant(
            "given-up-table-without-marker",
            "drop-marks",
            line(_TABLE, _LOOK, f"{_LOOK}; found = wanted.marker if visible == wanted.blocks else found"),
            "given-up-table",
            8,
        ),
        Mutant(
            "large-records-are-staged",
            "refused-early",
            line("penstock.connectors.kafka.encoding", _LARGE, "if False:"),
            "early-topic",
            0,
        ),
        Mutant(
            "values-are-not-checked",
            "refused-early",
            line("penstock.connectors.postgres.postgres_sink", "if why := check(staged):", 'if why := "":'),
            "early-table",
            0,
        ),
        Mutant(
            "a-row-beside-the-refused-one-is-left-out",
            "skip-refused",
            line(_TABLE, "if high - low == 1:", "if high - low <= 2:"),
            "less-table",
            5,
        ),
        Mutant(
            "successor-is-fenced-and-overwritten",
            "skip-refused",
            line(_TOPIC, "if self._marker != marker:", "if False:"),
            "less-topic",
            46,
        ),
    )
}
