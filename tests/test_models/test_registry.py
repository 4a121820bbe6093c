"""The registry imports the modules of `on_demand` classes on first use."""

import sys
from inspect import isclass
from uuid import uuid4

import pytest
from mmengine.registry import DATASETS as ROOT_DATASETS
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import Registry

from mmflatten.models import detection
from mmflatten.registry import DATASETS, MODELS, LazyRegistry

MODULE = """
from mmengine.registry import Registry
registry = Registry.waiting

@registry.register_module()
class Late:
    def __init__(self, width):
        self.width = width
"""


@pytest.fixture
def registry(tmp_path, monkeypatch) -> LazyRegistry:
    """A registry with one class, `Late`, whose module has not been imported."""
    module = f'late_{uuid4().hex}'
    (tmp_path / f'{module}.py').write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    registry = LazyRegistry(Registry('late', scope='mmengine'), on_demand={'Late': module})
    monkeypatch.setattr(Registry, 'waiting', registry, raising=False)
    yield registry
    sys.modules.pop(module, None)


@pytest.mark.parametrize('key', ['Late', 'mmflatten.Late'])
def test_lazy_registry_imports_the_module_when_the_class_is_requested(registry, key):
    assert len(registry) == 0
    assert registry.build(dict(type=key, width=3)).width == 3
    assert len(registry) == 1 and registry.get('Late') is registry.module_dict['Late']


def test_lazy_registry_contains_classes_that_are_not_imported(registry):
    assert 'Late' in registry and 'Missing' not in registry


def test_lazy_registry_is_searched_from_other_scopes(registry):
    sibling = Registry('late', parent=registry.parent, scope='sibling')
    assert (
        sibling.get('mmflatten.Late').__name__
        == registry.parent.get('mmflatten.Late').__name__
        == 'Late'
    )
    assert sibling.get('Late') is None


@pytest.mark.parametrize('registry, root', [(MODELS, ROOT_MODELS), (DATASETS, ROOT_DATASETS)])
def test_registries_hold_classes_only(registry, root):
    for name in registry.on_demand:
        assert root.get(f'mmflatten.{name}').__name__ == name
    assert len(registry) and all(isclass(cls) for cls in registry.module_dict.values())


def test_detection_classes_are_attributes_of_the_package():
    assert all(getattr(detection, name).__name__ == name for name in detection.__all__)
    with pytest.raises(AttributeError, match='NoSuchHead'):
        detection.__getattr__('NoSuchHead')
