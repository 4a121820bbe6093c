"""Models of the synthetic tasks and baselines, for `custom_imports` of configs."""
from mmflatten_lab.models.baselines import Pixels, SmallCNN
from mmflatten_lab.models.synthetic_tasks import CellHead, PlainMixer

__all__ = ['CellHead', 'PlainMixer', 'Pixels', 'SmallCNN']
