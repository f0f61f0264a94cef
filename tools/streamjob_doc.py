"""Writes docs/streamjob.md from the tables of fields: ``python -m tools.streamjob_doc``."""

from collections.abc import Iterator
from pathlib import Path

from penstock.contract import streamsnapshot as snapshot
from penstock.contract.schema import Kind, Row
from penstock.contract.streamjob_fields import SPEC
from penstock.contract.streamjob_status import REASONS, STATUS

FILE = Path(__file__).parent.parent / "docs" / "streamjob.md"
HEAD = """\
# The StreamJob file

One file describes a job: `penstock run FILE` runs it on this machine, and a cluster's operator runs
the same object (`kubectl apply -f FILE`). Durations are texts like `500ms`, `10s`, `1m30s`;
quantities are texts like `64Mi` or `1.5G`. What is not known is an error that names the nearest
known field, with file and line. `--set path=value` replaces one value:
`--set checkpoint.interval=1s`, `--set job.parameters.input=data`,
`--set "job.graph.steps[lines].parallelism=2"`.

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

`job.entrypoint` is imported from the folder of the file, the working directory or the environment.
`job.script` is the source of a small job and defines `job(params)`. In the texts, durations and
quantities of `job.graph`, `${name}` is the parameter of that name (`$${name}` the text itself);
each step reads the one above unless `inputs` says otherwise (`step` or `step.output`), and exactly
one of the kinds of step is given. Paths are relative to the working directory.

This page is made from the table that the reader and the schema of the API server use
(`python -m tools.streamjob_doc`, `python -m tools.crds`). Fields marked *cluster* are read and
checked everywhere, and only a cluster uses them; `penstock validate --cluster FILE` also asks for
those that a cluster needs.
"""


STATUS_HEAD = """\
# The status of a StreamJob

Written by the operator, in a cluster. `state` is for people; programs read the conditions, whose
reasons are fixed. All conditions are good when they are true, but for `Stalled`: a person must act;
`Progressing` is neither. `kubectl get sj --field-selector status.state=Failed` finds jobs by state.
"""
SNAPSHOT_HEAD = """\
# The StreamSnapshot

`kubectl apply` of a StreamSnapshot takes a savepoint of a job, or names one that is already there;
`spec.restore.snapshotRef` of a StreamJob begins from it.
"""


def render() -> str:
    """Return the whole page."""
    lines = [HEAD, *_tables(SPEC, "spec"), STATUS_HEAD, *_reasons(), *_tables(STATUS, "status")]
    lines += [SNAPSHOT_HEAD, *_tables(snapshot.SPEC, "spec"), *_tables(snapshot.STATUS, "status")]
    return "\n".join(lines).rstrip() + "\n"


def _tables(table: Row, name: str) -> Iterator[str]:
    """Give one table for each object below ``table``."""
    for path, row in _objects(table, name):
        yield from (f"## `{path}`", "", row.meaning[0].upper() + row.meaning[1:] + ".")
        if row.one_of:
            yield f"Exactly one of {', '.join(f'`{n}`' for n in row.one_of)}."
        yield from (f"- {rule.message}." for rule in row.rules)
        yield from (
            "",
            "| field | type | meaning | default | rule |",
            "| --- | --- | --- | --- | --- |",
        )
        yield from (_line(child) for child in row.fields)
        yield ""


def _reasons() -> Iterator[str]:
    yield from ("| condition | reasons |", "| --- | --- |")
    for kind, reasons in REASONS.items():
        yield f"| `{kind}` | {', '.join(f'`{r}`' for r in reasons)} |"
    yield ""


def _objects(row: Row, path: str) -> Iterator[tuple[str, Row]]:
    if row.fields:
        yield path, row
    for child in row.fields:
        mark = "[]" if child.kind is Kind.LIST else ""
        yield from _objects(child, f"{path}.{child.name}{mark}")


def _line(row: Row) -> str:
    shown = row.default not in (None, "") and row.kind is not Kind.OBJECT
    default = "" if not shown else f"`{_plain(row.default)}`"
    cells = (f"`{row.name}`", _type(row), row.meaning, default, _rule(row))
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(row: Row) -> str:
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


def _rule(row: Row) -> str:
    bounds = [f">= {row.minimum}"] * (row.minimum is not None)
    bounds += [f"<= {row.maximum}"] * (row.maximum is not None)
    words = (
        [row.rule] * bool(row.rule) + ["required"] * row.required + ["immutable"] * row.immutable
    )
    key = [f"`{row.key}` names an item"] * bool(row.key) + ["none twice"] * row.unique
    where = ["*cluster*"] * row.cluster + ["required in a cluster"] * row.cluster_required
    return ", ".join(words + bounds + key + where)


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
