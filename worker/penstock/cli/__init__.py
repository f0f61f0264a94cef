"""The command line: the composition root. Each command is a small file; heavy imports are late."""
