"""`mmflatten benchmark` from a checkout."""
import sys

from mmflatten.cli.benchmark import main

if __name__ == '__main__':
    sys.exit(main())
