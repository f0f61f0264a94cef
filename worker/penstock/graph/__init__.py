"""From what a user wrote to what an engine runs: API, files, checks, plan, pictures.

    Python function ─┐
    job.graph        ┼─> Draft (steps, functions, places) ─> checks ─> plan ─> CompiledJob
    job.script       ┘

Imports of Arrow happen where rows are at hand, never at import: ``penstock --help`` and the
supervisor rest on this package.
"""
