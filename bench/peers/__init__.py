"""Other engines that run the same job: how each of them is installed, set up and run.

One TOML file for each engine says what is installed, how it is set up, and why. ``programs`` has the
programs that run in the engine's own environment. Nothing there may import Penstock.
"""
