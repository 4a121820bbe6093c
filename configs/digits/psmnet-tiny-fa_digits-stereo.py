"""The tiny PSMNet of psmnet-tiny_digits-stereo.py with factorized attention after res4, on the same
digit scenes.

Run by this project: 1.303 and 1.605 px end-point error with seeds 0 and 1; 226 s on one thread of a
shared machine.
"""

_base_ = ['./psmnet-tiny_digits-stereo.py']

model = dict(attention=dict(type='mmflatten.FactorizedAttention', basis_channels=16))
