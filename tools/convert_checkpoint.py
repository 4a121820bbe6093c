"""`mmflatten convert` from a checkout."""
import sys

from mmflatten.cli.convert import main

if __name__ == '__main__':
    sys.exit(main())
