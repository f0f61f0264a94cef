"""The objects of a job, each built by a function of what is wanted. Pure; no defaults of others."""
