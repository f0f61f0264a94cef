"""Keyed state of tasks: tables in memory, RocksDB below them, files of snapshots.

``hot`` is the table, ``task`` all tables of a task, ``snapshot`` their files, ``rocks`` state
larger than its memory budget.
"""
