"""Checks of the fused kernels: machine code (without a GPU), errors, speed, and models that use
them.
"""
