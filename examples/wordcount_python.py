"""Word count in Python: the job of wordcount_python.yaml."""

import penstock as ps


def job(params: ps.Parameters) -> ps.Job:
    """Count every word of the column ``line``, and emit the new count after each word."""
    job = ps.Job()
    rate = params.integer("rate", 0)
    lines = job.source("lines", ps.parquet(params["input"], rate=rate), columns={"line": "string"})
    words = lines.split("words", "line")
    counts = words.key_by("word").aggregate("counts", count=ps.count())
    counts.sink("output", ps.parquet(params["output"]))
    return job
