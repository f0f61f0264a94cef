"""What a process tells about itself: log lines, and metrics for Prometheus.

What belongs here: naming, formatting and exporting. What does not: measuring on the hot path,
which is the engine's, per batch at most; and any decision. Never a key in a label or a line.
"""
