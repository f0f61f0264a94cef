"""The demo: a real job on real text is killed, deposed and rescaled, and stays exact.

``job`` runs and watches a job from outside, as a user would; ``scenario`` does things to it;
``summary`` shows what was measured. Nothing here knows the inside of the engine.
"""
