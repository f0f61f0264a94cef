"""A fleet of running jobs against a real API server: what the operator costs, and how fast it is.

``python -m bench.fleet``: see ``__main__``. ``workers.py`` writes what the workers of a real job write,
``server.py`` starts the server and the operator, ``figures.py`` reads what they used.
"""
