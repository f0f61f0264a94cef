"""Mutants: the code that ships with one fault, which a test has to notice. See ``__main__.py``."""
