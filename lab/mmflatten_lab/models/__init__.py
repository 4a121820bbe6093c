"""Models of the synthetic tasks, baselines, controls and parts of attentions, for `custom_imports`
of configs.
"""

from mmflatten_lab.models.baselines import MeanAttention, NoAttention, Pixels, SmallCNN
from mmflatten_lab.models.factors import WithLocalTermAndGate, gates_of
from mmflatten_lab.models.synthetic_tasks import CellHead, PlainMixer

__all__ = [
    'CellHead',
    'MeanAttention',
    'NoAttention',
    'Pixels',
    'PlainMixer',
    'SmallCNN',
    'WithLocalTermAndGate',
    'gates_of',
]
