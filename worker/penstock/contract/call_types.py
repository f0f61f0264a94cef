"""What a graph says of a user function with types: the records that it takes and gives, and its state.

Python hints are the source (``penstock.model.declared.function_types``). Here are names and texts only, so a plan can
be read where the user's module is not.
"""

from enum import StrEnum
from typing import Annotated

from penstock.contract.codec import ABSENT, Absent, Message
from penstock.contract.columns import ColumnName, Columns, DeclaredColumns
from penstock.contract.schema import Field

Reference = Annotated[
    str,
    Field(pattern=r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*", rule="package.module:function"),
]


class CompileChoice(StrEnum):
    """Whether a function with types is compiled. REQUIRE: a job whose function cannot be compiled is refused."""

    AUTO = "auto"
    NEVER = "never"
    REQUIRE = "require"


class TypedField(Message, tag="TypedField"):
    """A field of a record or state: its name and its type as messages show it, ``Ring[int8, 5]``.

    ``renamed`` is the name that the field of a state had before.
    """

    name: str
    type: str
    renamed: str | Absent = ABSENT


class StateFields(Message, tag="StateFields"):
    """A class of states, and its fields in order."""

    name: str
    fields: tuple[TypedField, ...]


class RecordFields(Message, tag="RecordFields"):
    """A class of records: its fields in order, and the columns that they are."""

    name: str
    fields: tuple[TypedField, ...]
    columns: Columns


class SideRecords(Message, tag="SideRecords"):
    """The records of a named output beside the main one."""

    output: str
    record: RecordFields


class CallTypes(Message, tag="CallTypes"):
    """The types of one function. ``main`` is None for a filter, ``state`` is None without one.

    ``earlier`` is the state that ``migrate`` of the step converts.
    """

    record: RecordFields
    main: RecordFields | None = None
    state: StateFields | None = None
    sides: tuple[SideRecords, ...] = ()
    earlier: StateFields | Absent = ABSENT


class TimerHandler(Message, tag="TimerHandler"):
    """The function that is called when a timer of a step's state fires."""

    timer: Annotated[ColumnName, Field("timer", "the field of the state")]
    function: Annotated[Reference, Field("function", "the function that is called when the timer fires")]


MIGRATES = Field("migrate", "what converts the state of an earlier class, at a restore")
MigrateFunction = Annotated[Reference | Absent, MIGRATES]
TimerHandlers = Annotated[
    tuple[TimerHandler, ...], Field("onTimer", "what is called when a timer of the state fires", key="timer")
]


class WholeCall(Message, tag="WholeCall"):
    """The function that is called with all rows of a window, and the columns that it emits."""

    function: Annotated[Reference, Field("function", "the function, which takes (key, window, rows, out)")]
    columns: Annotated[DeclaredColumns, Field("columns", "the columns that the function emits")]
