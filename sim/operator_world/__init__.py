"""The operator in a simulated cluster: old views, crashes, a second operator, users.

The decisions are those of ``penstock_operator.reconcile``. The API server is a dictionary.
"""
