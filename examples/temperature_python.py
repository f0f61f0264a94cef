"""One-minute windows per mote in Python: the job of temperature_python.yaml."""

import penstock as ps

READING = {"mote": "int64", "ts": "timestamp[us]", "temperature": "double"}


def job(params: ps.Parameters) -> ps.Job:
    """Summarise each minute of each mote. Readings that come too late go to their own output."""
    job = ps.Job()
    readings = job.source(
        "readings",
        ps.parquet(params["input"], rate=params.integer("rate", 0)),
        columns=READING,
        event_time="ts",
        out_of_orderness="30s",
    )
    minutes = readings.key_by("mote").window(
        "minutes",
        "1m",
        allowed_lateness="10s",
        count=ps.count(),
        sum=ps.sum("temperature"),
        min=ps.min("temperature"),
        max=ps.max("temperature"),
        mean=ps.mean("temperature"),
    )
    minutes.sink("output", ps.parquet(params["output"]))
    minutes.late.sink("late", ps.parquet(params["late"]))
    return job
