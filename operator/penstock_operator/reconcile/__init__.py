"""Decides what to do for one job, from the observed objects and the time. Pure, level-triggered.

Nothing is remembered here: whatever must survive a crash is in an object of the cluster. Read the
files in this order:

    decide          the steps in order, each in a file of its own
    accept          which spec is to run
    lifecycle       the phase of the job, its operation, its deletion
    children        all objects around the workers, and the metadata
    certificates    the Secrets with certificates
    workers         the StatefulSet, -desired, and lost pods
    snapshots       the StreamSnapshots
    diagnosis       what is wrong, for the condition Stalled
    conditions      the conditions and the state
    scaling         the autoscaler
    status          the whole status, and the events that tell of its changes
    replay          the SparkApplication
    actions         what a decision consists of
    observation     what a decision looks at, and which changes of objects can change it
"""
