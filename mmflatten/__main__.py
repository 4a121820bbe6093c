"""`python -m mmflatten` is the `mmflatten` command."""

import sys

from mmflatten.cli.main import main

if __name__ == '__main__':
    sys.exit(main())
