"""`mmflatten train` from a checkout."""

import sys

from mmflatten.cli.main import script

main = script('train')

if __name__ == '__main__':
    sys.exit(main())
