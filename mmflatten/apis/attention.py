"""Deprecated name of `mmflatten.explain.maps`."""
import warnings

from mmflatten.explain import maps as _moved


def __getattr__(name: str) -> object:
    value = getattr(_moved, name)
    warnings.warn('mmflatten.apis.attention: moved to mmflatten.explain.maps.', DeprecationWarning, stacklevel=2)
    return value
