"""Public interface for programs: models by name, and `Predictor(config, checkpoint)(image)` for
trained models.
"""

from typing import Any

from mmflatten.deprecation import current_name
from mmflatten.hub.remote import from_pretrained
from mmflatten.predict.models import get_model, list_models
from mmflatten.predict.predictor import Predictor

__all__ = ['Predictor', 'from_pretrained', 'get_model', 'list_models']


def __getattr__(name: str) -> Any:
    """Return a function by its old name."""
    current = current_name('function', name)
    if current == name:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return globals()[current]
