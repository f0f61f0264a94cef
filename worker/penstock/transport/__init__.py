"""Channels between tasks: in memory on one worker, over Arrow Flight between two.

``protocol.channel`` decides; this package has the threads and sockets that carry the decisions
out. Begin to read at :class:`penstock.transport.exchange.Exchange`.

A worker with n peers has these threads: n that each read the link of one peer, SENDER_THREADS
that write all channels, and one handler in the Flight server for each inbound stream (a channel
from another worker, or the link of a peer). A handler sleeps in a read almost all the time.
"""
