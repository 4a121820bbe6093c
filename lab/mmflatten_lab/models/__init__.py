"""Models of the synthetic tasks, baselines and parts of attentions, for `custom_imports` of configs."""
from mmflatten_lab.models.baselines import Pixels, SmallCNN
from mmflatten_lab.models.factors import WithLocalTermAndGate, gates_of
from mmflatten_lab.models.synthetic_tasks import CellHead, PlainMixer

__all__ = ['CellHead', 'Pixels', 'PlainMixer', 'SmallCNN', 'WithLocalTermAndGate', 'gates_of']
