"""What a program needs: models by name, and `Predictor(config, checkpoint)(image)` of a trained one."""
from mmflatten.predict.models import get_model, list_models
from mmflatten.predict.predictor import Predictor

__all__ = ['Predictor', 'get_model', 'list_models']
