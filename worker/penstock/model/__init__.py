"""What channels carry and how it is encoded: elements, wire format, key hash, compiled kernels.

``elements`` and ``wire`` import no Arrow, because the pure protocol core uses them.
"""
