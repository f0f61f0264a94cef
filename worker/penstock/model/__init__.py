"""What travels and how it is written: elements, wire format, key hash, compiled kernels.

``elements`` and ``wire`` know no Arrow: the pure protocol core rests on them.
"""
