"""Stereo pairs with disparity: SceneFlow, KITTI and user folders, with loading and augmentation."""

from mmflatten.datasets.stereo.files import (
    StereoDataError,
    read_disparity,
    read_kitti_disparity,
    read_pfm,
    write_pfm,
)
from mmflatten.datasets.stereo.layouts import (
    KITTIStereoDataset,
    SceneFlowDataset,
    StereoFolderDataset,
)
from mmflatten.datasets.stereo.transforms import (
    LoadDisparity,
    LoadStereoPair,
    PackStereoInputs,
    StereoPad,
    StereoPhotometricJitter,
    StereoRandomCrop,
)

__all__ = [
    'KITTIStereoDataset',
    'LoadDisparity',
    'LoadStereoPair',
    'PackStereoInputs',
    'SceneFlowDataset',
    'StereoDataError',
    'StereoFolderDataset',
    'StereoPad',
    'StereoPhotometricJitter',
    'StereoRandomCrop',
    'read_disparity',
    'read_kitti_disparity',
    'read_pfm',
    'write_pfm',
]
