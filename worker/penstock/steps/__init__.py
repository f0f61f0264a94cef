"""The steps that tasks run: functions over batches. They do no I/O and start no threads.

``base`` is the contract of a step. ``stateless``, ``keyed``, ``process`` and ``window`` are the
steps. ``chain`` joins the steps of a stage into one callable when a task starts.
"""
