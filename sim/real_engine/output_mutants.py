"""One-line faults of what publishes to servers, which runs with virtual servers must notice."""

from sim.real_engine.engine_mutant import EngineMutant, line

_TABLE = "connectors.postgres.marked_table"
_TOPIC = "connectors.kafka.marked_topic"
_NEWEST = 'newest, order = f"DISTINCT ON ({by}) ", f"ORDER BY {by}, {NUMBER} DESC ON CONFLICT ({by}) DO "'
_OFFSETS = "self._producer.send_offsets_to_transaction([at], self._consumer.consumer_group_metadata(), ANSWER_MAX_S)"
_PENDING = "return StagedPending(self._step, staging, self._output, self._committed, whole=self._target.whole)"
_FENCE = "self._producer.init_transactions(2 * ANSWER_MAX_S)"

OUTPUT_MUTANTS = (
    EngineMutant(
        "own-object-is-foreign",
        "an object that this publication has made, whose reply was lost, counts as that of somebody else",
        line("connectors.s3.s3_sink", "if found == Content(part.size, part.sha256):", "if False:"),
        "chaos-bucket",
    ),
    EngineMutant(
        "row-of-the-marker-not-made",
        "the first marker of a task is not written",
        line(
            _TABLE,
            "\" VALUES ($1, $2, $3, $4, $5, 'seed', 0) ON CONFLICT DO NOTHING\",",
            "\" SELECT $1, $2, $3, $4, $5::bigint, 'seed', 0 WHERE false\",",
        ),
        "chaos-table",
    ),
    EngineMutant(
        "key-twice-in-a-statement",
        "an upsert has a key twice, which the server refuses",
        line(_TABLE, _NEWEST, _NEWEST.replace('f"DISTINCT ON ({by}) "', '""')),
        "chaos-table",
    ),
    EngineMutant(
        "oldest-row-of-a-key-wins",
        "an upsert leaves an older value than the newest one",
        line(_TABLE, _NEWEST, _NEWEST.replace(" DESC", "")),
        "chaos-table",
    ),
    EngineMutant(
        "marker-not-seeded",
        "output is prepared for a task that has no marker yet",
        line("connectors.staged_sink", "known = self._output.known(self._visible)", "known = Epoch(0)"),
        "chaos-topic",
    ),
    EngineMutant(
        "marker-of-an-aborted-epoch",
        "a first marker is of the epoch before the staged one, which may never be committed, and its number used again",
        line("connectors.staged_sink", _PENDING, _PENDING.replace("self._committed", "Epoch(epoch - 1)")),
        "chaos-table",
    ),
    EngineMutant(
        "marker-behind-its-transaction",
        "records are committed in one transaction, and the marker in the next",
        line(_TOPIC, _OFFSETS, f"self._producer.commit_transaction(ANSWER_MAX_S); {_OFFSETS}"),
        "chaos-topic",
        seed=1,
    ),
    EngineMutant(
        "some-blocks-are-all",
        "an epoch of which some blocks are visible counts as published",
        line("protocol.marked", "return found.blocks", "return wanted.blocks"),
        "chaos-topic",
        seed=2,
    ),
    EngineMutant(
        "lost-commit-counts-as-done",
        "a transaction of Kafka whose outcome is not known counts as committed",
        line(_TOPIC, "raise found from error", "return"),
        "chaos-topic",
        seed=1,
    ),
    EngineMutant(
        "marker-beside-the-rows",
        "rows are committed in one transaction, and the marker in the next",
        line(
            _TABLE,
            "left_out = self._insert(session, wanted.how)",
            'left_out = self._insert(session, wanted.how); session.run("COMMIT"); session.run("BEGIN")',
        ),
        "chaos-table",
        seed=1,
    ),
    EngineMutant(
        "marker-read-before-the-fence",
        "a publisher reads the marker, and then fences the one before it, which has committed meanwhile",
        line(_TOPIC, _FENCE, f"self._marker = self._read(); {_FENCE}; return"),
        "stalled-topic",
        seed=5,
    ),
)
