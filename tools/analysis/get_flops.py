"""`mmflatten flops` from a checkout."""
import sys

from mmflatten.cli.flops import main

if __name__ == '__main__':
    sys.exit(main())
