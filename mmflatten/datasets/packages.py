"""Pictures and handwriting that come with other packages."""
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def skimage_file(name: str) -> Path:
    """A file that scikit-image's wheel holds in `skimage/data`; the library is not imported, nothing is fetched."""
    found = find_spec('skimage')
    if found is None:
        raise ImportError(f'{name} comes with scikit-image, which is not installed; install it with `pip install '
                          'scikit-image`')
    return Path(found.submodule_search_locations[0], 'data', name)


def sklearn_datasets() -> ModuleType:
    """``sklearn.datasets``, imported late: only making the scenes needs scikit-learn, using them does not."""
    try:
        return import_module('sklearn.datasets')
    except ImportError as error:
        raise ImportError('the handwriting and the photographs come with scikit-learn, which is not installed; '
                          'install it with `pip install scikit-learn`') from error
