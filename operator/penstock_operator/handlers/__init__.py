"""From watches to reconciles: events only feed a queue of keys; reads are what is decided from."""
