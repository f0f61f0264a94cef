"""Enrichment: each row waits for the answer of an asynchronous call.

rows ──> EnrichStep ──> PendingRows: which call is made next, which rows may leave
              └── asks through an AsyncCalls (engine or in-process), which brings the answers
"""
