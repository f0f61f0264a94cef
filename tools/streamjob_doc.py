"""Writes docs/streamjob.md and docs/streamjob-cluster.md from the fields of penstock.contract.

``python -m tools.streamjob_doc`` writes both anew.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from penstock.contract import streamsnapshot as snapshot
from penstock.contract.schema import FieldRow, Kind
from penstock.contract.streamjob import SPEC
from penstock.contract.streamjob_status import REASONS, STATUS

DOCS = Path(__file__).parent.parent / "docs"
HEAD = """\
# The job file

One file describes a job. `penstock run FILE` runs it on this machine. In a cluster, the operator runs the same
object (`kubectl apply -f FILE`). This page has the fields that a job needs on one machine.
[The job file in a cluster](streamjob-cluster.md) has the others: image, volumes, scaling, upgrades and the status.

```yaml
apiVersion: penstock.dev/v1alpha1
kind: StreamJob
metadata:
  name: wordcount          # at most 40 characters
spec:
  replicas: 2
  job:                     # exactly one of entrypoint, script, graph
    entrypoint: jobs:wordcount
    parameters: {input: data/lines}
```

- Durations are texts like `500ms`, `10s` or `1m30s`. Quantities are texts like `64Mi` or `1.5G`.
- An unknown field is an error. The error names file, line and the known field with the nearest name.
- `--set path=value` replaces one value: `--set checkpoint.interval=1s`, `--set job.parameters.input=data`,
  `--set "job.graph.steps[lines].parallelism=2"`.
- `job.entrypoint` is imported from the folder of the file, from the working directory or from the environment.
  `job.script` holds the source of a small job, which defines `job(params)`.
- `penstock run`, `validate` and `graph` also take a Python file instead of a job file.
  See [the command line](cli.md).
- In `job.graph`, `${name}` stands for the parameter of that name, in texts, durations and quantities.
  `$${name}` is the text `${name}` itself.
- A step reads the step above it, unless `inputs` names others (`step` or `step.output`). A step has exactly one kind.
- Relative paths start at the working directory.

The tables are made from the fields that the reader of the file and the API server's schema use
(`python -m tools.streamjob_doc`, `python -m tools.crds`).
"""
CLUSTER_HEAD = """\
# The job file in a cluster

These fields are for a cluster. They come on top of [those of the job file](streamjob.md). One machine reads and
checks them as well, and makes no use of them. `penstock validate --cluster FILE` asks for the fields that a cluster
needs: `spec.image`, `spec.checkpoint` and `spec.checkpoint.volume`. [Kubernetes](kubernetes.md) shows their use.
"""
STATUS_HEAD = """\
# The status of a StreamJob

The operator writes the status, in a cluster. `state` is for people. Programs read the conditions, whose reasons are
fixed. A condition is good when it is true. There are two exceptions: `Stalled` is true when a person must act, and
`Progressing` is neither good nor bad. `kubectl get sj --field-selector status.state=Failed` finds jobs by state.
"""
SNAPSHOT_HEAD = """\
# The StreamSnapshot

`kubectl apply` of a StreamSnapshot takes a savepoint of a job, or names one that is already there.
`spec.restore.snapshotRef` of a StreamJob begins from it.
"""


def pages() -> dict[str, str]:
    """Return both pages by their names."""
    laptop = [HEAD, *_tables(SPEC, "spec", cluster=False)]
    cluster = [CLUSTER_HEAD, *_tables(SPEC, "spec", cluster=True)]
    cluster += [_below(STATUS_HEAD), *_reasons(), *_tables(STATUS, "status")]
    cluster += [_below(SNAPSHOT_HEAD), *_tables(snapshot.SPEC, "StreamSnapshot spec")]
    cluster += _tables(snapshot.STATUS, "StreamSnapshot status")
    parts = {"streamjob.md": laptop, "streamjob-cluster.md": cluster}
    return {name: "\n".join(lines).rstrip() + "\n" for name, lines in parts.items()}


def _below(head: str) -> str:
    return f"#{head}"


def _tables(table: FieldRow, name: str, *, cluster: bool | None = None) -> Iterator[str]:
    """Give one table for each object below ``table``: all fields, or those of one of the pages."""
    for path, row, within in _objects(table, name, table.cluster):
        shown = [r for r in row.fields if cluster is None or (within or r.cluster) is cluster]
        if not shown:
            continue
        yield from (f"## `{path}`", "", row.meaning[0].upper() + row.meaning[1:] + ".")
        if row.one_of:
            yield f"Exactly one of {', '.join(f'`{n}`' for n in row.one_of)}."
        named = [r.name for r in shown]
        yield from (f"- {r.message}." for r in row.rules if cluster is None or _is_about(r.message, row, named))
        yield from (
            "",
            "| field | type | meaning | default | rule |",
            "| --- | --- | --- | --- | --- |",
        )
        yield from (_line(child) for child in shown)
        yield ""


def _is_about(message: str, row: FieldRow, shown: list[str]) -> bool:
    """Say whether a rule belongs to the page that shows these fields: it names none of the others."""
    words = re.split(r"[^\w]+", message)
    return not any(r.name in words for r in row.fields if r.name not in shown) or (
        any(name in words for name in shown) and any(r.cluster and r.name in shown for r in row.fields)
    )


def _reasons() -> Iterator[str]:
    yield from ("| condition | reasons |", "| --- | --- |")
    for kind, reasons in REASONS.items():
        yield f"| `{kind}` | {', '.join(f'`{r}`' for r in reasons)} |"
    yield ""


def _objects(row: FieldRow, path: str, within: bool) -> Iterator[tuple[str, FieldRow, bool]]:
    """Give each object with its path, and whether it is below a field of clusters."""
    if row.fields:
        yield path, row, within
    for child in row.fields:
        mark = "[]" if child.kind is Kind.LIST else ""
        yield from _objects(child, f"{path}.{child.name}{mark}", within or child.cluster)


def _line(row: FieldRow) -> str:
    shown = row.default not in (None, "") and row.kind is not Kind.OBJECT
    default = "" if not shown else f"`{_plain(row.default)}`"
    cells = (f"`{row.name}`", _type(row), row.meaning, default, _rule(row))
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(row: FieldRow) -> str:
    match row.kind:
        case Kind.DURATION_US:
            return "duration"
        case Kind.LIST:
            return "list of objects" if row.fields else "list of texts"
        case Kind.TEXT_MAP:
            return "texts by name"
        case Kind.CHOICE:
            return " or ".join(f"`{c}`" for c in row.choices)
        case _:
            return str(row.kind)


def _rule(row: FieldRow) -> str:
    bounds = [f">= {row.minimum}"] * (row.minimum is not None)
    bounds += [f"<= {row.maximum}"] * (row.maximum is not None)
    words = [row.rule] * bool(row.rule) + ["required"] * row.required + ["immutable"] * row.immutable
    key = [f"`{row.key}` names an item"] * bool(row.key) + ["none twice"] * row.unique
    where = ["required in a cluster"] * row.cluster_required
    return ", ".join(words + bounds + key + where)


if __name__ == "__main__":
    for name, text in pages().items():
        (DOCS / name).write_text(text, encoding="utf-8")
