"""``python -m penstock.cli``: the same as the command ``penstock``."""

from penstock.cli import main

main()
