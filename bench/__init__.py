"""The benchmark harness: scenarios of the network word count, measured, checked and drawn.

``make bench`` runs them all; ``python -m bench.run NAME`` one. Timings are results, never tests.
"""
