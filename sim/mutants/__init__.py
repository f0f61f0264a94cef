"""The core without one rule: what each run must be able to notice."""
