"""FLatten-DeiT on Fashion-MNIST at 56 x 56: 196 patches and the class token, 1.2 M parameters.

Run by this project with a smaller `arch` and in shorter trainings alone: lab/docs/second_study.md.
"""
_base_ = ['../_base_/models/flatten-deit-nano.py', '../_base_/datasets/fashion_56.py']
model = dict(backbone=dict(img_size=56))
