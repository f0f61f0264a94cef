"""A channel: credit, sequence numbers, who may send."""
