"""Tests against a real broker, which runs as long as a process runs tests of this package."""
