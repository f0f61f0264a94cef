"""What every other package may rest on: the error tree, named limits, suggestions.

Nothing here does I/O, reads a clock or knows a stream. Standard library only.
"""
