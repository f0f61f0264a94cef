"""Steps whose functions have types: records of the user's classes, state as rows of a table, ``out.emit``.

Here functions are interpreted: Python runs them for one record after the other. A compiled step reads and
writes the same columns, and gives a record that it cannot do to this code.

    undo_log        every write of one record, so that the record can be undone
    value_rules     which Python values a kind takes
    enum_text       a text of ``ps.Enum`` with its code
    bound_table     the columns of a state table for the rows of one batch
    value_cells     one value of a state row
    field_cells     the fields that are no single value, and which kind of field has which cell
    entry_tables    the entries of lists, maps, sets and timers for the rows of one batch
    entry_cells     lists, maps, sets and timers
    state_rows      the object that a function gets as its state
    record_reader   from an Arrow batch to records
    record_writer   from records to an Arrow batch
    arrow_types     the Arrow types of kinds of values
    state_contents  a state as columns of Arrow, and back
    emitted_records what a function emits
    record_calls    calls a function for one record after the other
    plain_steps     map, filter and flat map
    process_step    process
"""
