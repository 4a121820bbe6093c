"""`mmflatten check-recipe`, or `mmflatten check`, from a checkout."""

import sys

from mmflatten.cli.main import script

main = script('check-recipe')

if __name__ == '__main__':
    sys.exit(main())
