"""Compiles functions per record as they are written: Python's syntax tree becomes LLVM, and that machine code.

    function_source   the syntax tree of a function, with file and line
    held_kinds        kinds of values, and how each is held
    arithmetic        what operators mean for numbers: as in Python, or a check fails
    text_operations   texts without copies
    column_access     records, states and outputs at addresses of columns
    expressions       the expressions that are known
    known_calls       the calls that are known
    statements        the statements that are known, and variables
    loop_writer       the LLVM function of the loop, its checks and its undo log
    frame_words       what the loop gets: the words of its frame
    building          machine code
    frames            runs the loop over batches

A check that fails undoes its record. Python then runs the same function on it, so its result or its error
is Python's own.
"""
