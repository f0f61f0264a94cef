"""The long run of the tests: one command, which can be interrupted and goes on where it was."""
