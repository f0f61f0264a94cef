"""Steps that join the rows of two inputs by key.

``window_join`` pairs rows of one window. ``kept_rows`` keeps the rows of both sides until then. ``interval_join`` pairs
rows whose times are near each other: ``bucket_rows`` keeps them, and ``events`` says what happens when. ``pairs``
puts kept rows in order and makes the output of them.
"""
