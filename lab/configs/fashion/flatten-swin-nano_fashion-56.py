"""Tiny FLatten-Swin on Fashion-MNIST at 56 x 56: 196 tokens in the first stage, 1.4 M parameters.

Run by this project in shorter trainings alone: lab/docs/second_study.md.
"""
_base_ = ['../_base_/models/flatten-swin-nano.py', '../_base_/datasets/fashion_56.py']
model = dict(backbone=dict(img_size=56))
