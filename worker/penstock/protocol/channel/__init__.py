"""Channels: credit and order of elements, admission of streams, pushed input."""
