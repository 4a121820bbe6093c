"""Scenes of objects on photographs, in the layouts of COCO, ADE20K and ImageNet, or of
SceneFlow.
"""
