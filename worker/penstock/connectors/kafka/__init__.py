"""Kafka: topics as a replayable source, and as a sink. The client is the extra ``penstock[kafka]``."""
