"""PSMNet of reduced width on stereo pairs of garment scenes. Not run by this project beyond a few iterations."""
_base_ = [
    '../_base_/models/psmnet_tiny.py', '../_base_/datasets/garments_stereo.py', '../_base_/schedules/stereo_adam_6e.py',
    '../_base_/default_runtime.py'
]
