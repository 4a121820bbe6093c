"""Data sets and metrics of nano models, for `custom_imports` of configs."""

from mmflatten_lab.datasets.canvases import GarmentCanvases
from mmflatten_lab.datasets.cell_accuracy import CellAccuracy
from mmflatten_lab.datasets.image_tensors import FashionTensors
from mmflatten_lab.datasets.stages import StageSampler
from mmflatten_lab.datasets.synthetic_tasks import SyntheticTasks

__all__ = ['SyntheticTasks', 'CellAccuracy', 'FashionTensors', 'GarmentCanvases', 'StageSampler']
