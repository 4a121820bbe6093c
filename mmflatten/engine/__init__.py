"""Training and testing on MMEngine: a Runner with safe checkpoints, hooks, data checks and
distributed strategies.
"""
