"""Adapters for what outlives a process on one machine: a directory of files, an SQLite database.

What belongs here: durability, exclusive creation, checks on reading. What does not: names of
files, what they mean, when they may go (``protocol``), and anything that travels over a socket.
"""
