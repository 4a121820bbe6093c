"""PSMNet of reduced width on stereo pairs of digit scenes, from random weights on a CPU.

Run by this project: 1.701 and 1.570 px end-point error on the 80 held-out pairs with seeds 0 and 1,
where their mean disparity gives 4.858; 175 s on one thread of a shared 2-core machine.
"""

_base_ = ['../_base_/recipes/psmnet_digits-stereo.py']
