"""PySpark beside Penstock: it makes the inputs, pushes them in, and computes the expected answers.

Nothing of the engine imports this package, and no answer of the oracle comes from the engine's
code: the two can only agree by being right.
"""
