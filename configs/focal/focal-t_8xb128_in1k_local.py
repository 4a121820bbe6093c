"""Focal-T whose windows attend their fine neighbours but no pooled windows.

Focal Transformer, Figure 5, a bar without a printed number (82.2 % top-1 for Focal-T, Table 2). Not
run by this project.
"""

_base_ = ['./focal-t_8xb128_in1k.py']

model = dict(backbone=dict(global_=False))
