"""Records and states as users declare them: kinds of values and fields, and nothing that runs them.

``value_kinds`` has the kinds of values, ``field_kinds`` those of state fields. ``hints`` reads both from Python
hints. ``record_types`` and ``state_types`` are the decorators and the types that they make. Compiled loops,
state tables, the planner and ``job.graph`` read these values. Arrow types are texts here, so nothing
imports Arrow.
"""
