"""Digit scenes: real handwriting on photographs, written as COCO, ADE20K and ImageNet are."""
