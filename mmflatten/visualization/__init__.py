"""Drawings that the OpenMMLab libraries lack."""
