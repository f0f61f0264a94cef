"""Steps that join the rows of two inputs by key.

``window_join`` pairs rows of one window. ``kept_rows`` keeps the rows of both sides until then. ``event_join`` pairs
rows in the order of event time: ``bucket_rows`` keeps them, and ``events`` says what happens when. ``partners`` says
which rows can be pairs: those whose times are near each other, or the newest version of a table
(``table_versions``). ``pairs`` puts kept rows in order and makes the output of them.
"""
