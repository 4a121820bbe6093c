"""Public interface for programs: models by name, and `Predictor(config, checkpoint)(image)` for
trained models.
"""

from mmflatten.hub.remote import from_pretrained
from mmflatten.predict.models import get_model, list_models
from mmflatten.predict.predictor import Predictor

__all__ = ['Predictor', 'from_pretrained', 'get_model', 'list_models']
