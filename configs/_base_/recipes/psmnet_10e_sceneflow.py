"""PSMNet on SceneFlow, 10 epochs of Adam on a total batch of 12: PSMNet's own training.

The model is complete; a config changes it.
"""

_base_ = [
    '../models/psmnet.py',
    '../datasets/sceneflow_stereo.py',
    '../schedules/stereo_adam_10e.py',
    '../default_runtime.py',
]
