"""Deprecated name of `mmflatten.explain.cam`."""
import warnings

from mmflatten.explain import cam as _moved


def __getattr__(name: str) -> object:
    value = getattr(_moved, name)
    warnings.warn('mmflatten.apis.cam: moved to mmflatten.explain.cam.', DeprecationWarning, stacklevel=2)
    return value
