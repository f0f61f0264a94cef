"""Tests against a real server, which runs as long as a process runs tests of this package."""
