"""The table of ``job.graph``: every field of every kind of step."""

from typing import Annotated

from penstock.base import limits
from penstock.contract import declared
from penstock.contract.columns import Column, normal_type
from penstock.contract.connectors import CONNECTORS, Role, option_row
from penstock.contract.declared import DeclaredGraph, Strategy
from penstock.contract.graph import Aggregate, EventTime, Function, OnError, Per, Split, Window
from penstock.contract.schema import (
    Field,
    Row,
    Rule,
    choice,
    duration_us,
    group,
    integer,
    listing,
    text,
    texts,
)

NAME = r"[a-z]([-a-z0-9_]*[a-z0-9])?"
NAME_RULE = "a lower-case letter, then letters, digits, - and _"
COLUMN = r"[^_\n].*|_([^_\n].*)?"
COLUMN_RULE = "names that begin with __ belong to the engine"
REFERENCE = r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*"
REFERENCE_RULE = "package.module:function"
STEP_KINDS = (
    "source",
    "map",
    "flatMap",
    "filter",
    "split",
    "aggregate",
    "window",
    "process",
    "sink",
)

StepName = Annotated[str, Field(pattern=NAME, rule=NAME_RULE, length_max=63)]

STEP_RULES = (
    Rule(
        "!(has(self.keyBy) && size(self.keyBy) > 0 && has(self.partition))",
        "keyBy and partition are both there: keyed rows go to the owner of their key",
        path=".partition",
    ),
    Rule(
        "has(self.partitionFunction) == (has(self.partition) && self.partition == 'custom')",
        "partition: custom and partitionFunction belong together",
        path=".partitionFunction",
    ),
    Rule(
        "has(self.keyBy) && size(self.keyBy) > 0"
        " || !has(self.aggregate) && !has(self.window) && !has(self.process)",
        "a step that keeps state needs keyBy",
        path=".keyBy",
    ),
)
COMPUTE_RULES = (
    Rule(
        "has(self.column) || self.function == 'count'",
        "every function but count needs a column",
        path=".column",
    ),
)


def _column(*, name: str, arrow_type: str) -> Column:
    return Column(name, normal_type(arrow_type))


def _columns(name: str, meaning: str) -> Row:
    return listing(
        name,
        meaning,
        _column,
        text("name", "name of the column", required=True, pattern=COLUMN, rule=COLUMN_RULE),
        text(
            "type",
            "Arrow type, like int64, string or timestamp[us]",
            required=True,
            attribute="arrow_type",
        ),
        key="name",
        length_max=1024,
    )


def _column_name(name: str, meaning: str, **more: object) -> Row:
    return text(name, meaning, pattern=COLUMN, rule=COLUMN_RULE, **more)


FUNCTION = text(
    "function", "the user function", required=True, pattern=REFERENCE, rule=REFERENCE_RULE
)
PER = choice("per", "what the function takes: an Arrow batch, or one record", Per, default="batch")
BATCH_ROWS = integer(
    "batchRows", "rows in one call, at most", minimum=1, maximum=limits.SOURCE_BATCH_ROWS_MAX
)
ON_ERROR = choice(
    "onError",
    "what happens when the function raises for a row: the job fails, or the row goes to the output dead-letter",
    OnError,
    default="fail",
)
CALL = (FUNCTION, PER, BATCH_ROWS, ON_ERROR)
RESULT = _columns("columns", "the columns that the function gives; needed with per: record")

COMPUTE = listing(
    "compute",
    "the computed columns",
    declared.compute,
    _column_name("name", "name of the computed column", required=True),
    choice("function", "the aggregate", Function, required=True),
    _column_name("column", "the column it is computed from; count may have none"),
    key="name",
    required=True,
    rules=COMPUTE_RULES,
)

SOURCE = group(
    "source",
    "reads a replayable input",
    declared.source,
    *(option_row(c) for c in CONNECTORS if c.role is Role.SOURCE),
    _columns("columns", "the columns to read; all of the input's when left out"),
    group(
        "eventTime",
        "where the time of a row is, and how far rows may be out of order",
        EventTime,
        _column_name("column", "a timestamp[us] column", required=True),
        duration_us("outOfOrderness", "the bound of disorder", default="0s"),
        duration_us("idleAfter", "a split that is silent for this long does not hold others back"),
    ),
    integer(
        "batchRows",
        "rows read at once",
        default=limits.SOURCE_BATCH_ROWS_DEFAULT,
        minimum=1,
        maximum=limits.SOURCE_BATCH_ROWS_MAX,
    ),
    one_of=tuple(c.name for c in CONNECTORS if c.role is Role.SOURCE),
)
SINK = group(
    "sink",
    "writes to an output",
    declared.sink,
    *(option_row(c) for c in CONNECTORS if c.role is Role.SINK),
    one_of=tuple(c.name for c in CONNECTORS if c.role is Role.SINK),
)
STEP = (
    text("name", "name of the step", required=True, pattern=NAME, rule=NAME_RULE, length_max=63),
    texts("inputs", "what it reads: step or step.output; the step above when left out"),
    texts("keyBy", "key columns: all rows of a key meet in one task"),
    choice("partition", "how rows that are not keyed are dealt out", Strategy),
    text(
        "partitionFunction",
        "for partition: custom, gives a task number per row",
        pattern=REFERENCE,
        rule=REFERENCE_RULE,
    ),
    integer(
        "parallelism", "number of tasks; one per worker when left out", minimum=1, maximum=4096
    ),
    SOURCE,
    group("map", "one row out for each row in", declared.mapping, *CALL, RESULT),
    group("flatMap", "any number of rows for each row in", declared.flat_mapping, *CALL, RESULT),
    group("filter", "keeps rows for which the function says true", declared.filtering, *CALL),
    group(
        "split",
        "text into words at every single space",
        Split,
        _column_name("column", "the text column", required=True),
        _column_name("into", "name of the word column", default="word"),
    ),
    group("aggregate", "running values of a key: one row out for each row in", Aggregate, COMPUTE),
    group(
        "window",
        "tumbling windows of event time",
        Window,
        duration_us("size", "length of a window", required=True, minimum="1us"),
        duration_us("offset", "shift of all windows from 1970-01-01", default="0s"),
        duration_us("allowedLateness", "how long a window waits for late rows", default="0s"),
        COMPUTE,
    ),
    group(
        "process",
        "a user function over the rows of keys, with state",
        declared.processing,
        *CALL,
        RESULT,
        _columns("state", "one value per key in each of these"),
    ),
    SINK,
)
GRAPH = group(
    "graph",
    "declarative steps",
    DeclaredGraph,
    listing(
        "steps",
        "the steps, inputs before their readers",
        declared.declared_step,
        *STEP,
        key="name",
        required=True,
        length_max=limits.STEPS_MAX,
        one_of=STEP_KINDS,
        rules=STEP_RULES,
    ),
)
