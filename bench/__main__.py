"""`python -m bench [NAME]`: what `make bench` calls."""

import sys

import bench
from kairoscope import interrupts
from kairoscope.cli.options import console
from kairoscope.errors import UserError

try:
    # Between two verbs as well: the servers of a bench are ended before it ends.
    with interrupts.as_ctrl_c():
        bench.run(sys.argv[1] if len(sys.argv) > 1 else None, console)
except UserError as error:
    sys.exit(f"Error: {error}")
except KeyboardInterrupt as interrupt:
    sys.exit(f"Error: interrupted by {interrupts.name(interrupt)}")
