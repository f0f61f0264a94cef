"""The leader: election, the committed object, checkpoints, recovery, rescale."""
