"""A task: barriers, watermarks, snapshots, and its part of a rescale."""
