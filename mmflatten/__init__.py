"""mmflatten: exchange the attention operator of a vision backbone, keep the OpenMMLab tools around it."""
import sys

from mmflatten.requirements import check_installed
from mmflatten.version import __version__

__all__ = ['__version__']

# `python -m mmflatten.doctor` imports this package first, and must come through to report what is wrong.
if 'mmflatten.doctor' not in sys.orig_argv:
    check_installed()
