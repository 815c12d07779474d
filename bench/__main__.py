"""`python -m bench [NAME]`: what `make bench` calls."""

import sys

import bench
from kairoscope.cli.options import console
from kairoscope.errors import UserError

try:
    bench.run(sys.argv[1] if len(sys.argv) > 1 else None, console)
except UserError as error:
    sys.exit(f"Error: {error}")
