"""The mutants: the core without one rule, which the simulation must notice."""
