"""Output to tables of Iceberg."""
