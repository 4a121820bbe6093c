"""`mmflatten test` from a checkout."""

import sys

from mmflatten.cli.main import script

main = script('test')

if __name__ == '__main__':
    sys.exit(main())
