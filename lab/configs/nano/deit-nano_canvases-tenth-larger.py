"""`deit-nano_canvases-learned.py` whose last tenth of the steps has canvases of 784 tokens, as
detectors fine-tune at a larger size than a classifier was trained at: lab/docs/third_study.md.
"""

_base_ = ['deit-nano_canvases-learned.py']

train_dataloader = dict(
    # Multiples of the batch size of 16, so that the canvases of a batch have one size.
    sampler=dict(stages=[2400, 19200, 2400]),
    dataset=dict(canvases=[(2, 1, 2400, 'copies'), (2, 1, 19200), (4, 1, 2400)]),
)
