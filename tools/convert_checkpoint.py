"""`mmflatten convert-checkpoint`, or `mmflatten convert`, from a checkout."""

import sys

from mmflatten.cli.main import script

main = script('convert-checkpoint')

if __name__ == '__main__':
    sys.exit(main())
