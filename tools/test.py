"""`mmflatten test` from a checkout."""
import sys

from mmflatten.cli.test import main

if __name__ == '__main__':
    sys.exit(main())
