"""FLatten-CSwin, including CSwin: LeapLabTHU/FLatten-Transformer `models/flatten_cswin.py`."""

from mmflatten.checkpoints.families.common import focused
from mmflatten.checkpoints.families.skeletons import cswin

FLATTEN_CSWIN = cswin('flatten_cswin', focused)
