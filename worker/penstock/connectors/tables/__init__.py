"""Sources that read a table by its log, in lanes: what tables of Delta Lake and of Iceberg have in common."""
