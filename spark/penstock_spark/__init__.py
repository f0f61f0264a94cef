"""Tools with PySpark: they write datasets, push them into jobs, and compute the expected output.

The engine does not import this package, and the oracle does not use code of the engine. So both can
only agree if both are right.
"""
