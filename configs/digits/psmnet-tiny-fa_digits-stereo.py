"""The tiny PSMNet of psmnet-tiny_digits-stereo.py with factorized attention after res4, on the same digit scenes."""
_base_ = ['./psmnet-tiny_digits-stereo.py']

model = dict(attention=dict(type='mmflatten.FactorizedAttention', basis_channels=16))
