"""`mmflatten flops` from a checkout; `get-flops` is another name of the command."""

import sys

from mmflatten.cli.main import script

main = script('get-flops')

if __name__ == '__main__':
    sys.exit(main())
