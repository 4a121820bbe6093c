"""Tiny FLatten-Swin on Fashion-MNIST at 112 x 112: 784 tokens in the first stage, 1.5 M parameters.

Run by this project in shorter trainings alone: lab/docs/second_study.md.
"""
_base_ = ['../_base_/models/flatten-swin-nano.py', '../_base_/datasets/fashion_112.py']
model = dict(backbone=dict(img_size=112))
