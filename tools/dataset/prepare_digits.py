"""`mmflatten data digits` from a checkout."""

import sys

from mmflatten.cli.main import script

main = script('data', 'digits')

if __name__ == '__main__':
    sys.exit(main())
