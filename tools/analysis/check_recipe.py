"""`mmflatten check` from a checkout."""
import sys

from mmflatten.cli.check import main

if __name__ == '__main__':
    sys.exit(main())
