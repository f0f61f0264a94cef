"""Tests with real processes, sockets, files and signals."""
