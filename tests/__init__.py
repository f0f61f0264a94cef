"""The tests; folders are kinds of tests."""
