"""PSMNet of reduced width for pairs of 96 x 192 pixels, which are 24 x 48 positions where the
pyramid pools them.
"""

_base_ = ['./psmnet.py']

model = dict(
    max_disp=48, aggregation='basic', base_channels=8, depths=(1, 2, 1, 1), pool_sizes=(16, 8, 4, 2)
)
