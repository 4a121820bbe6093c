"""mmflatten: exchange the attention operator of a vision backbone, keep the OpenMMLab tools around
it.
"""

from mmflatten.version import __version__

__all__ = ['__version__']
