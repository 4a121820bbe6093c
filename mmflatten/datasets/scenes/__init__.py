"""Scenes of digits or garments on photographs, written as COCO, ADE20K and ImageNet are, or in stereo as SceneFlow."""
