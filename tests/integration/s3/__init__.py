"""Tests against a real store, which runs as long as a process runs tests of this package."""
