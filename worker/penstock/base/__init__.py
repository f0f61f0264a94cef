"""What every other package may rest on: the error tree, named limits, suggestions.

Nothing here does I/O or knows a stream. Only ``threads`` has clocks: it names them for the packages
that may read one. Standard library only.
"""
