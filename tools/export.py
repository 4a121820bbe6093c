"""`mmflatten export` from a checkout."""

import sys

from mmflatten.cli.main import script

main = script('export')

if __name__ == '__main__':
    sys.exit(main())
