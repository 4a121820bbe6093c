"""PSMNet fine-tuned on KITTI 2015 for 300 epochs: Adam at 1e-3, 1e-4 after 200.

No paper prints a number for this split, the first 160 of the 200 pairs by name: the official code
takes them in the order in which the file system lists them. Not run by this project.
The loss leaves out what lies beyond the model's reach, 192 pixels and more; the official
fine-tuning keeps it. It starts from `load_from`: a checkpoint of psmnet_4xb3-10e_sceneflow.py, or
the official one after
tools/convert_checkpoint.py.
"""

_base_ = ['../_base_/recipes/psmnet_300e_kitti2015.py']
load_from = 'checkpoints/psmnet_sceneflow.pth'
