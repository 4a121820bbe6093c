"""`mmflatten get-flops`, or `mmflatten flops`, from a checkout."""

import sys

from mmflatten.cli.main import script

main = script('get-flops')

if __name__ == '__main__':
    sys.exit(main())
