"""What a program needs of a trained model: `Predictor(config, checkpoint)(image)`."""
from mmflatten.apis.predictor import Predictor

__all__ = ['Predictor']
