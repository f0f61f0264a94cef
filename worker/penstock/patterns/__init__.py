"""Parallel patterns as graphs: pipeline and farm. They build steps and nothing else."""
