"""Public interface for programs: models by name, and `Predictor(config, checkpoint)(image)` for trained models."""
from mmflatten.hub.remote import push_to_hub
from mmflatten.predict.models import get_model, list_models
from mmflatten.predict.predictor import Predictor

__all__ = ['Predictor', 'get_model', 'list_models', 'push_to_hub']
