"""Data sets that the OpenMMLab libraries lack, and the embedded data made from real handwriting."""
