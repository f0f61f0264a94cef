"""``python -m penstock_operator``: the operator's process."""

import sys

from penstock_operator.app.main import main

if __name__ == "__main__":
    sys.exit(main())
