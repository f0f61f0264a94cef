"""Lookups: each row gets columns of a table of another system. It is an enrichment whose calls the engine makes.

rows ──> LookupStep ──> AnswerCache: rows whose answer is known leave at once
             │  └─────> AskedRows, PendingRows: the others wait in keyed state
             └── asks through an AsyncCalls ──> TableCalls: connections, and tries until there is an answer
"""
