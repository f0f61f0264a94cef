"""``python -m penstock_spark dataset|temperature|oracle|oracle-temperature|replay``."""

import sys

from penstock_spark.cli import main

if __name__ == "__main__":
    sys.exit(main())
