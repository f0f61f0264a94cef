"""Keyed state of tasks: tables in memory, RocksDB for what does not fit, and snapshot files.

``hot`` is one table in memory, ``tiered`` adds its rows on disk (``rocks``), ``keyed_backend`` has
all tables of a task, and ``state_files`` writes and reads their files.
"""
