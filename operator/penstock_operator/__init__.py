"""The Kubernetes operator: it creates and controls the workers of StreamJob objects.

::

    app         settings, metrics, probes, logs, the operator's Lease; starts everything
    handlers    watches, and a work queue that holds each job at most once
    cluster     the only I/O: reads the objects of a job, performs what was decided
    reconcile   pure: from an observation and the time to actions and a status
    resources   pure: builds the objects of a job from its spec
    api         pure: what objects look like to the operator; names, field classes, rights

Imports go downwards only. Of Penstock it may import ``penstock.contract`` and ``penstock.base``,
and nothing else.
"""
