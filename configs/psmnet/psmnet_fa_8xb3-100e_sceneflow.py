"""FA-PSMNet: PSMNet with factorized attention after res4 of the monocular half, on SceneFlow.

Factorized Attention, Table 6: 0.477 px end-point error (0.48 in Table 7). Not run by this project.
A basis of 64 and one Gaussian head as in the paper's detectors; the width of the values is not
stated, here it is that of the map, 128 channels: 49,536 more parameters.
"""

_base_ = ['./psmnet_8xb3-100e_sceneflow.py']

model = dict(attention=dict(type='mmflatten.FactorizedAttention', basis_channels=64))
