"""Tests against a real API server, which runs as long as a process runs tests of this package."""
