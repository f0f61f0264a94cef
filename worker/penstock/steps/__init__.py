"""What tasks run: batch functions composed once at start. No I/O, no clock, no threads.

``base`` is the contract; ``stateless``, ``keyed`` and ``window`` are the steps; ``chain`` joins
the steps of a stage into one callable.
"""
