"""``python -m penstock.engine LAUNCH_FILE``: the engine of one worker, started by its keeper."""

import gc
import sys

if __name__ == "__main__":
    gc.disable()  # while modules load: they stay anyway, and collecting costs 0.1 s
    from penstock.engine.main import main

    main(sys.argv[1:])
