"""PSMNet on SceneFlow by its own recipe: 10 epochs, batch 12 on 4 GPUs, Adam at 1e-3.

Factorized Attention, Table 7: 1.09 px end-point error, as published by PSMNet's authors (Chang and
Chen, CVPR 2018). Not run by this project.
"""

_base_ = ['../_base_/recipes/psmnet_10e_sceneflow.py']
