"""One-line faults of the engine that runs under seeds must notice.

Most passed every test of a revision before the real engine ran under a seed: unit, golden, property
and integration tests together. A few seeds of the scenario ``chaos`` notice each of them.
"""

from dataclasses import dataclass

from sim.mutants.patching import Patch


@dataclass(frozen=True, slots=True)
class EngineMutant:
    """The engine with one fault."""

    name: str
    fault: str
    patches: tuple[Patch, ...]


def _line(module: str, line: str, mutated: str) -> tuple[Patch, ...]:
    return (Patch(f"penstock.{module}", line, mutated),)


_TABLE = (
    EngineMutant(
        "fired-rows-behind-the-barrier",
        "rows that a watermark fires leave only with the next batch",
        _line(
            "engine.task_effects",
            "reached = self._firing(lambda: self._parts.chain.on_watermark(action.time_us))",
            "return self.step(ev.Fired(self._firing(lambda: self._parts.chain.on_watermark(action.time_us))))",
        ),
    ),
    EngineMutant(
        "live-offset-committed",
        "a reader is told its live offset as committed",
        _line(
            "engine.source_reader",
            "opened.reader.committed(epoch, state)",
            "opened.reader.committed(epoch, opened.reader.state())",
        ),
    ),
    EngineMutant(
        "blob-folder-not-synced",
        "the name of a stored file is not durable",
        _line(
            "storage.blobs",
            "ref = self._write(file, name, content)",
            "return self._write(file, name, content)",
        ),
    ),
    EngineMutant(
        "output-folder-not-synced",
        "the names of published files are not durable",
        _line(
            "connectors.parquet_sink",
            "sync_folder(self._files, self._output.path)",
            "pass",
        ),
    ),
    EngineMutant(
        "staged-file-not-synced",
        "the content of a staged file is not durable",
        _line("connectors.parquet_folder", "files.fsync(file)", "pass"),
    ),
    EngineMutant(
        "lost-groups-still-listed",
        "a task lists state files of groups that it has lost",
        _line("keyed_state.keyed_backend", "self._files.lose(share)", "pass"),
    ),
    EngineMutant(
        "sender-call-lost",
        "a sender is called for the first element only",
        _line("transport.output", "if not self._scheduled:", "if not self._scheduled and not self._opened:"),
    ),
    EngineMutant(
        "source-spins",
        "a source that may not read waits for no time, again and again",
        _line(
            "engine.source_reader", "if split not in self._ended and may_read(split):", "if split not in self._ended:"
        ),
    ),
)
MUTANTS = {mutant.name: mutant for mutant in _TABLE}
