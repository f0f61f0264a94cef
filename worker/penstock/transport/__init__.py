"""Channels between tasks: in memory on one worker, over Arrow Flight between two.

The decisions are those of ``protocol.channel`` and ``protocol.admission``; here are the threads
and sockets that carry them out. :class:`penstock.transport.exchange.Exchange` is the way in.

Threads of a worker with n peers: one that reads the link of each peer, SENDER_THREADS that
write all channels, and in the Flight server one handler for each inbound stream (a channel of
another worker, or the link of a peer), almost always asleep in a read.
"""
