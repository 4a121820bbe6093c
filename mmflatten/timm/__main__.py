"""Run a timm script with the backbones registered: `python -m mmflatten.timm train.py DIR --model
NAME`.
"""

import runpy
import sys

if __name__ == '__main__':
    if len(sys.argv) < 2:
        sys.exit('usage: python -m mmflatten.timm SCRIPT [ARGUMENT ...]')
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name='__main__')
