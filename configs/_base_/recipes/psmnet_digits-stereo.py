"""PSMNet of reduced width on stereo pairs of digit scenes, 6 epochs.

The model is complete; a config changes it.
"""

_base_ = [
    '../models/psmnet_tiny.py',
    '../datasets/digits_stereo.py',
    '../schedules/stereo_adam_6e.py',
    '../default_runtime.py',
]
