"""The Kubernetes operator: StreamJob objects in, workers and their surroundings out.

::

    app         settings, metrics, probes, logs, the Lease of the operator; starts everything
    handlers    watches, a work queue of keys that holds each key once
    cluster     the only I/O: reads what a job has, performs what was decided
    reconcile   pure: what is observed, and the time -> what to do, and the status
    resources   pure: the objects of a job, built from its spec
    api         pure: what objects look like to the operator; names, field classes, rights

Imports go downwards only. Of Penstock it may import ``penstock.contract`` and ``penstock.base``,
and nothing else.
"""
