"""`mmflatten train` from a checkout."""
import sys

from mmflatten.cli.train import main

if __name__ == '__main__':
    sys.exit(main())
