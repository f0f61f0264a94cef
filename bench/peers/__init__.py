"""Other engines at the same job: how each is installed, set up and run.

One TOML file per engine says what is installed and how it is set up, and why. ``programs`` holds
what runs in the engine's own environment: nothing there may import Penstock.
"""
