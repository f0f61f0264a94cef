"""Output to PostgreSQL."""
