"""`deit-nano_canvases-learned.py` with canvases of 784 tokens in every fifth step, as detectors
train at several sizes: lab/docs/third_study.md.
"""

_base_ = ['deit-nano_canvases-learned.py']

train_dataloader = dict(
    # Multiples of the batch size of 16, so that the canvases of a batch have one size.
    sampler=dict(stages=[2400, *[64, 16] * 270]),
    dataset=dict(canvases=[(2, 1, 2400, 'copies'), *[(2, 1, 64), (4, 1, 16)] * 270]),
)
