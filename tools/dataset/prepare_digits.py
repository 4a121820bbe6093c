"""`mmflatten data digits` from a checkout."""
import sys

from mmflatten.cli.data import main

if __name__ == '__main__':
    sys.exit(main(['digits', *sys.argv[1:]]))
