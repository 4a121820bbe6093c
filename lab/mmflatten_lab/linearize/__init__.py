"""Give a trained model another attention: swap, align block by block, distil, and choose the
blocks.
"""
