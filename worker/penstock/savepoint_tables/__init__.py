"""Savepoints as Parquet tables: the state of steps is written to them, and made from them."""
