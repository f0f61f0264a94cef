"""Bytewax between two topics: its Kafka connectors, and ``stateful_map``."""

from datetime import timedelta
from typing import Any

import orjson  # type: ignore[import-not-found]
from bytewax import operators as op  # type: ignore[import-not-found]
from bytewax._bytewax import cli_main  # type: ignore[import-not-found]
from bytewax.connectors.kafka import (  # type: ignore[import-not-found]
    KafkaSink,
    KafkaSinkMessage,
    KafkaSource,
)
from bytewax.dataflow import Dataflow  # type: ignore[import-not-found]
from bytewax.recovery import RecoveryConfig, init_db_dir  # type: ignore[import-not-found]

from bench.peers.programs.kafka_task import KafkaTask, run

BATCH_ROWS = 10_000
PRODUCER = {"linger.ms": "5", "compression.type": "lz4", "partitioner": "murmur2_random"}


def read(messages: list[Any]) -> list[tuple[str, None]]:
    """Return the word of each message as a key."""
    return [(orjson.loads(message.value)["word"], None) for message in messages]


def count(state: int | None, _value: None) -> tuple[int, int]:
    """Return the new state and the output."""
    new = (state or 0) + 1
    return new, new


def written(counts: list[tuple[str, int]]) -> list[Any]:
    """Return the message of each count."""
    return [KafkaSinkMessage(word.encode(), orjson.dumps({"word": word, "count": n})) for word, n in counts]


def program(task: KafkaTask) -> None:
    """Run for ever, in one worker."""
    flow = Dataflow("words")
    source = KafkaSource([task.servers], [task.source], batch_size=BATCH_ROWS)
    words = op.flat_map_batch("read", op.input("words", flow, source), read)
    counts = op.stateful_map("count", words, count)
    op.output("end", op.flat_map_batch("written", counts, written), KafkaSink([task.servers], task.target, PRODUCER))
    recovery = task.folder / "recovery"
    recovery.mkdir()
    init_db_dir(recovery, 1)
    cli_main(
        flow,
        epoch_interval=timedelta(seconds=task.checkpoint_s),
        recovery_config=RecoveryConfig(str(recovery)),
    )


if __name__ == "__main__":
    run(program, processes=1)
