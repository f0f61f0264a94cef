"""The Kubernetes operator's package. Empty so far: jobs run on one machine first.

Of Penstock it may import ``penstock.contract`` and ``penstock.base``, and nothing else.
"""
