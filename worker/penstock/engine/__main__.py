"""``python -m penstock.engine LAUNCH_FILE``: the engine of one worker, started by its keeper."""

import sys

from penstock.engine.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
