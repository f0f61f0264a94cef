"""Windows of event time for each key: which window a row is in, when it emits, and which rows are late.

A step of this package keeps one kind of window. :mod:`penstock.steps.windows.late_rows` is what they share.
"""
