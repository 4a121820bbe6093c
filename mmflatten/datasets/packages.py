"""Pictures and handwriting that other packages ship."""
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


def skimage_file(name: str) -> Path:
    """Locate a file of scikit-image's wheel in `skimage/data` without importing or downloading anything."""
    spec = find_spec('skimage')
    if spec is None:
        raise ImportError(f'{name}: scikit-image is not installed. Run `pip install scikit-image`.')
    return Path(spec.submodule_search_locations[0], 'data', name)


def sklearn_datasets() -> ModuleType:
    """Import `sklearn.datasets`, which only building scenes needs."""
    try:
        return import_module('sklearn.datasets')
    except ImportError as error:
        raise ImportError('handwriting and photographs: scikit-learn is not installed. Run `pip install '
                          'scikit-learn`.') from error
