"""`mmflatten export` from a checkout."""
import sys

from mmflatten.cli.export import main

if __name__ == '__main__':
    sys.exit(main())
