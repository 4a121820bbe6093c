"""FLatten-DeiT on Fashion-MNIST at 112 x 112: 784 patches and the class token, 1.6 M parameters.

Not run by this project beyond a few iterations.
"""
_base_ = ['../_base_/models/flatten-deit-nano.py', '../_base_/datasets/fashion_112.py']
model = dict(backbone=dict(img_size=112))
