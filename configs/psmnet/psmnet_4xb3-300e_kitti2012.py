"""PSMNet fine-tuned on KITTI 2012 for 300 epochs: as psmnet_4xb3-300e_kitti2015.py, on 160 of 194
pairs.

No paper prints a number for this split; the official code validates on pairs that it also trains
on. Not run by this project.
"""

_base_ = ['./psmnet_4xb3-300e_kitti2015.py']

kitti_2012 = dict(data_root='data/kitti/2012', year=2012)
train_dataloader = dict(dataset=kitti_2012)
val_dataloader = dict(dataset=kitti_2012)
test_dataloader = dict(dataset=kitti_2012)
