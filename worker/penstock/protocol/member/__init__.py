"""The member: what a keeper decides for its own worker."""
