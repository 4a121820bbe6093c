"""Hints for missing data folders and files."""

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote


@dataclass(frozen=True)
class DataFolder:
    """A data set of the configs."""

    name: str
    # folder in the configs. Its last name identifies the data set anywhere in a path
    default_root: str
    how: str  # instructions to obtain it, with `{root}` for the folder
    contents: tuple[str, ...]  # patterns of the files in it
    aliases: tuple[str, ...] = ()  # other folder names that identify it


# Contents of the folders built by `mmflatten data`.
SCENES = (
    'images/{training,validation}',
    'annotations/{training,validation}',
    'annotations/instances_{train,val}.json',
)
PANOPTIC_SCENES = (
    'images/{training,validation}',
    'annotations/panoptic_{train,val}.json',
    'annotations/panoptic_{train,val}',
)
STEREO_SCENES = (
    'frames_cleanpass/{TRAIN,TEST}/A/0000/{left,right}',
    'disparity/{TRAIN,TEST}/A/0000/left',
    'disparity_occlusions/{TRAIN,TEST}/A/0000/left',
)
CLASS_FOLDERS = ('train/<class>/*.JPEG', 'val/<class>/*.JPEG')
DATA_FOLDERS = (
    DataFolder(
        'digit scenes',
        'data/digits',
        'mmflatten data digits --out {root}',
        (*SCENES, 'crops/{train,val}/{0..9}'),
    ),
    DataFolder(
        'panoptic digit scenes',
        'data/digits_panoptic',
        'mmflatten data digits --panoptic --out {root}',
        PANOPTIC_SCENES,
    ),
    DataFolder(
        'stereo digit scenes',
        'data/digits_stereo',
        'mmflatten data digits --stereo --out {root}',
        STEREO_SCENES,
    ),
    DataFolder(
        'garment scenes',
        'data/garments',
        'mmflatten garments scenes --out {root}',
        (*SCENES, 'crops/{train,val}/{0_T-shirt,...}'),
    ),
    DataFolder(
        'panoptic garment scenes',
        'data/garments_panoptic',
        'mmflatten garments scenes --panoptic --out {root}',
        PANOPTIC_SCENES,
    ),
    DataFolder(
        'stereo garment scenes',
        'data/garments_stereo',
        'mmflatten garments scenes --stereo --out {root}',
        STEREO_SCENES,
    ),
    DataFolder(
        'ImageNet-1k',
        'data/imagenet',
        'download ILSVRC2012 from https://image-net.org (registration needed), sort the validation'
        ' images into class folders, and put or link it at {root}',
        CLASS_FOLDERS,
        ('imagenet1k', 'in1k'),
    ),
    DataFolder(
        'ImageNet-22k',
        'data/imagenet22k',
        'download all of ImageNet from https://image-net.org (registration needed) and put or link'
        ' it at {root}',
        CLASS_FOLDERS,
        ('imagenet21k', 'in22k'),
    ),
    DataFolder(
        'ImageNet-1k in shards',
        'data/imagenet_shards',
        'pack the folders of ImageNet-1k with `tar`: docs/datasets.md',
        ('train.index', 'val.index'),
    ),
    DataFolder(
        'COCO 2017',
        'data/coco',
        'download train2017, val2017 and annotations_trainval2017 from https://cocodataset.org and'
        ' unpack them at {root}',
        ('train2017', 'val2017', 'annotations/instances_{train,val}2017.json'),
        ('coco2017',),
    ),
    DataFolder(
        'ADE20K (SceneParse150)',
        'data/ade/ADEChallengeData2016',
        'download ADEChallengeData2016.zip from http://sceneparsing.csail.mit.edu and unpack it at'
        ' {root}',
        ('images/{training,validation}', 'annotations/{training,validation}'),
        ('ade', 'ade20k'),
    ),
    DataFolder(
        'SceneFlow',
        'data/sceneflow',
        'download the RGB frames (clean pass) and disparities of FlyingThings3D, Monkaa and Driving'
        ' from https://lmb.informatik.uni-freiburg.de/resources/datasets/SceneFlowDatasets.en.html'
        ' and unpack each into a separate folder at {root}',
        ('{flyingthings3d,monkaa,driving}/{frames_cleanpass,disparity}',),
    ),
    DataFolder(
        'KITTI stereo',
        'data/kitti',
        'download data_stereo_flow.zip (2012) and data_scene_flow.zip (2015) from'
        ' https://www.cvlibs.net/datasets/kitti (registration needed) and unpack them at'
        ' {root}/2012 and {root}/2015',
        (
            '2012/training/{colored_0,colored_1,disp_occ,disp_noc}',
            '2015/training/{image_2,image_3,disp_occ_0,disp_noc_0}',
        ),
    ),
)

# Image formats that are not read.
OTHER_IMAGES = (
    '.avif',
    '.gif',
    '.heic',
    '.heif',
    '.j2k',
    '.jfif',
    '.jp2',
    '.jpe',
    '.jxl',
    '.pbm',
    '.pgm',
)
IMAGE_SUFFIXES = ('.bmp', '.jpeg', '.jpg', '.png', '.ppm', '.tif', '.tiff', '.webp')
DATA_SUFFIXES = ('', '.json', '.txt', '.png', '.jpg', '.jpeg')
NO_DATA_FOLDERS = {'configs', 'work_dirs'}  # `configs/digits` is not a data folder


def missing_data_hint(path: str | os.PathLike) -> str | None:
    """Return one sentence with the missing folder and the way to obtain it.

    `path` is a missing file or folder. Returns None if it exists or belongs to an unknown data set.
    The last folder of the path with a known name is the root of the data set.
    """
    path = Path(path)
    if path.exists() or path.suffix.lower() not in DATA_SUFFIXES:
        return None
    if NO_DATA_FOLDERS.intersection(path.parts):
        return None
    known = _folders_by_name()
    roots = [place for place in (path, *path.parents) if place.name.lower() in known]
    if not roots:
        return None
    root = roots[0]
    folder = known[root.name.lower()]
    default = Path(folder.default_root)
    if root.name == default.parent.name:  # `data/ade` is the parent of the folder in the configs
        root /= default.name
    how = folder.how.format(root=root)
    layout = f'expected there: {", ".join(folder.contents)}'
    if not root.exists():
        return f'{folder.name}: the folder {root} does not exist. To get it: {how} ({layout})'
    again = ' --force' if how.startswith('mmflatten ') else ''
    return (
        f'{folder.name}: {root} exists but {os.path.relpath(path, root)} is missing from it. '
        f'To get it: {how}{again} ({layout})'
    )


def spelling_hint(name: str) -> str:
    """Return a fix for the name of a missing file with percent escapes or backslashes, else ''."""
    if unquote(name) != name:
        return 'the name is escaped as in an address: write a space for %20, as unquote does'
    if '\\' in name:
        return 'the name has backslashes: write /, and names relative to the folder of the images'
    return ''


def _folders_by_name() -> dict[str, DataFolder]:
    folders = {}
    for folder in DATA_FOLDERS:
        for name in (Path(folder.default_root).name.lower(), *folder.aliases):
            folders[name] = folder
    return folders
