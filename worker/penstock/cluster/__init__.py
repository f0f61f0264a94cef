"""How processes of one job talk: gRPC between keepers and supervisor, a socket to the engine.

What belongs here: clients and servers that carry the contract's values, with bounded messages
and a deadline on every call. What does not: any decision about them. Servers listen on the
loopback address unless told otherwise.
"""
