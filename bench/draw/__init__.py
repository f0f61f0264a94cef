"""Pictures of results, made from their JSON alone: they can be drawn again without a run."""
