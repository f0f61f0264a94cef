"""Output to tables of Delta Lake."""
