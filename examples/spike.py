"""Spike detection: a reading is a spike if it differs by more than a quarter from the moving mean of its mote.

The mean is that of the last 1,000 readings, the new one included. Temperatures are added in whole ten-thousandths of a
degree, so a sum does not depend on the order in which it was built.
"""

import penstock as ps

WIDTH = 1000
UNITS = 10_000  # of a degree
SHARE = 0.25
FORMATS = {"parquet": ps.parquet, "csv": ps.csv}


@ps.record
class Reading:
    """A reading of a mote."""

    mote: int
    ts: ps.Time
    temperature: float


@ps.record
class Spike:
    """A reading that differs from the mean."""

    mote: int
    ts: ps.Time
    temperature: float
    average: float


@ps.state
class Recent:
    """The last readings of a mote, and their sum."""

    last: ps.Ring[int, WIDTH]  # type: ignore[valid-type]
    total: int = 0


def compare(r: Reading, s: Recent, out: ps.Out[Spike]) -> None:
    """Emit the reading if it is a spike."""
    value = round(r.temperature * UNITS)
    s.total += value - s.last.append(value)
    average = s.total / len(s.last) / UNITS
    if abs(r.temperature - average) > SHARE * average:
        out.emit(Spike(r.mote, r.ts, r.temperature, average))


def job(params: ps.Parameters) -> ps.Job:
    """Compare readings by mote."""
    dead_letters, form = params["dead_letters"], params.get("format", "parquet")
    if form not in FORMATS:
        raise ps.ConfigError(f"job.parameters.format is {form!r}; it must be one of {', '.join(FORMATS)}")
    job = ps.Job()
    columns = {"mote": "int64", "ts": "timestamp[us]", "temperature": "double"}
    announce = params.get("announce")
    source = ps.ingest(2, announce) if announce else FORMATS[form](params["input"], rate=params.integer("rate"))
    readings = job.source("readings", source, columns=columns).key_by("mote")
    spikes = readings.process("compare", compare, on_error="dead-letter" if dead_letters else "fail")
    spikes.sink("spikes", ps.parquet(params["output"]))
    if dead_letters:
        spikes.dead_letter.sink("bad", ps.parquet(dead_letters))
    return job
