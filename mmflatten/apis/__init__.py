"""Public interface for programs: models by name, and `Predictor(config, checkpoint)(image)` for trained models."""
from mmflatten.predict.models import get_model, list_models
from mmflatten.predict.predictor import Predictor

__all__ = ['Predictor', 'get_model', 'list_models']
