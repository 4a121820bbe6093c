"""`mmflatten data fashion` from a checkout."""
import sys

from mmflatten.cli.data import main

if __name__ == '__main__':
    sys.exit(main(['fashion', *sys.argv[1:]]))
