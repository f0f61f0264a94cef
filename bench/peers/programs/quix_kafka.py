"""Quix Streams between two topics: a stateful ``apply`` over its state store, exactly once."""

from typing import Any

from quixstreams import Application, State  # type: ignore[import-not-found]

from bench.peers.programs.kafka_task import KafkaTask, run

PRODUCER = {"linger.ms": 5, "compression.type": "lz4", "partitioner": "murmur2_random"}


def count(value: dict[str, Any], state: State) -> dict[str, Any]:
    """Count one word."""
    new = state.get("count", 0) + 1
    state.set("count", new)
    return {"word": value["word"], "count": new}


def program(task: KafkaTask) -> None:
    """Run for ever."""
    app = Application(
        broker_address=task.servers,
        consumer_group=f"quix-{task.target}",
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        commit_interval=task.checkpoint_s,
        state_dir=str(task.folder / f"state-{task.process}"),
        producer_extra_config=PRODUCER,
        loglevel="WARNING",
    )
    words = app.topic(task.source, key_deserializer="str", value_deserializer="json")
    counts = app.topic(task.target, key_serializer="str", value_serializer="json")
    app.dataframe(words).apply(count, stateful=True).to_topic(counts)
    app.run()


if __name__ == "__main__":
    run(program, processes=2)
