"""Real servers for tests and for trying things out: fetched, pinned by hash, started on free loopback ports."""
