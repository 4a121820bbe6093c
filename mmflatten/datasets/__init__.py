"""Data sets that are missing from the OpenMMLab libraries, and generated data."""
