"""PSMNet with a non-local module after res4 of the monocular half, on SceneFlow.

Factorized Attention, Table 6: no number, it did not fit a TITAN Xp even with a batch of 1. Not run
by this project. The twin of psmnet_fa_8xb3-100e_sceneflow.py with the same widths. A test image of
540 x 960 has 136 x 240 = 32,640 positions there, so one attention map of one view is 4.3 GB in
float32; a training crop has 8,192 positions, 0.27 GB.
"""

_base_ = ['./psmnet_8xb3-100e_sceneflow.py']

model = dict(attention=dict(type='mmflatten.ConventionalAttention', basis_channels=64))
