"""Hints for missing data folders."""
import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DataFolder:
    """A data set of the configs.

    Attributes:
        default_root: folder in the configs.
        contents: patterns of the files in it.
        aliases: folder names that identify the data set anywhere in a path.
        how: instructions to obtain it, with `{root}` for the folder.
    """

    name: str
    default_root: str
    contents: tuple[str, ...]
    aliases: tuple[str, ...]
    how: str


# Contents of the folders built by `mmflatten data`.
SCENES = ('images/{training,validation}', 'annotations/{training,validation}',
          'annotations/instances_{train,val}.json')
STEREO_SCENES = ('frames_cleanpass/{TRAIN,TEST}/A/0000/{left,right}', 'disparity/{TRAIN,TEST}/A/0000/left',
                 'disparity_occlusions/{TRAIN,TEST}/A/0000/left')
LISTED = ('{train,val}/00000.png', '{train,val}.txt')
DATA_FOLDERS = (
    DataFolder(
        name='digit scenes',
        default_root='data/digits',
        contents=(*SCENES, 'crops/{train,val}/{0..9}'),
        aliases=('digits', ),
        how='mmflatten data digits --out {root}'),
    DataFolder(
        name='stereo digit scenes',
        default_root='data/digits_stereo',
        contents=STEREO_SCENES,
        aliases=('digits_stereo', ),
        how='mmflatten data digits --stereo --out {root}'),
    DataFolder(
        name='garment scenes',
        default_root='data/garments',
        contents=(*SCENES, 'crops/{train,val}/{0_T-shirt,...}'),
        aliases=('garments', ),
        how='mmflatten data garments --out {root}'),
    DataFolder(
        name='stereo garment scenes',
        default_root='data/garments_stereo',
        contents=STEREO_SCENES,
        aliases=('garments_stereo', ),
        how='mmflatten data garments --stereo --out {root}'),
    DataFolder(
        name='garment canvases',
        default_root='data/canvases',
        contents=LISTED,
        aliases=('canvases', ),
        how='mmflatten data canvases --out {root}'),
    DataFolder(
        name='Fashion-MNIST images',
        default_root='data/fashion',
        contents=LISTED,
        aliases=('fashion', ),
        how='mmflatten data fashion --out {root}'),
    DataFolder(
        name='ImageNet-1k',
        default_root='data/imagenet',
        contents=('train/<class>/*.JPEG', 'val/<class>/*.JPEG'),
        aliases=('imagenet', 'imagenet1k', 'in1k'),
        how='download ILSVRC2012 from https://image-net.org (registration needed), sort the validation images into '
        'class folders, and put or link it at {root}'),
    DataFolder(
        name='ImageNet-22k',
        default_root='data/imagenet22k',
        contents=('train/<class>/*.JPEG', 'val/<class>/*.JPEG'),
        aliases=('imagenet22k', 'imagenet21k', 'in22k'),
        how='download all of ImageNet from https://image-net.org (registration needed) '
        'and put or link it at {root}'),
    DataFolder(
        name='ImageNet-1k in shards',
        default_root='data/imagenet_shards',
        contents=('train.index', 'val.index'),
        aliases=('imagenet_shards', ),
        how='pack the folders of ImageNet-1k, `mmflatten data shards data/imagenet --out {root}`'),
    DataFolder(
        name='COCO 2017',
        default_root='data/coco',
        contents=('train2017', 'val2017', 'annotations/instances_{train,val}2017.json'),
        aliases=('coco', 'coco2017'),
        how='download train2017, val2017 and annotations_trainval2017 from https://cocodataset.org and unpack them '
        'at {root}'),
    DataFolder(
        name='ADE20K (SceneParse150)',
        default_root='data/ade/ADEChallengeData2016',
        contents=('images/{training,validation}', 'annotations/{training,validation}'),
        aliases=('adechallengedata2016', 'ade', 'ade20k'),
        how='download ADEChallengeData2016.zip from http://sceneparsing.csail.mit.edu and unpack it at {root}'),
    DataFolder(
        name='SceneFlow',
        default_root='data/sceneflow',
        contents=('{flyingthings3d,monkaa,driving}/{frames_cleanpass,disparity}', ),
        aliases=('sceneflow', ),
        how='download the RGB frames (clean pass) and disparities of FlyingThings3D, Monkaa and Driving from '
        'https://lmb.informatik.uni-freiburg.de/resources/datasets/SceneFlowDatasets.en.html and unpack each into a '
        'separate folder at {root}'),
    DataFolder(
        name='KITTI stereo',
        default_root='data/kitti',
        contents=('2012/training/{colored_0,colored_1,disp_occ,disp_noc}',
                  '2015/training/{image_2,image_3,disp_occ_0,disp_noc_0}'),
        aliases=('kitti', ),
        how='download data_stereo_flow.zip (2012) and data_scene_flow.zip (2015) from https://www.cvlibs.net/datasets/'
        'kitti (registration needed) and unpack them at {root}/2012 and {root}/2015'),
)

IMAGE_SUFFIXES = ('.bmp', '.jpeg', '.jpg', '.png', '.ppm', '.tif', '.tiff', '.webp')
DATA_SUFFIXES = ('', '.json', '.txt', '.png', '.jpg', '.jpeg')
NO_DATA_FOLDERS = {'configs', 'work_dirs'}  # `configs/digits` is not a data folder


def missing_data_hint(path: str | os.PathLike) -> str | None:
    """Return one sentence with the missing folder and the way to obtain it.

    `path` is a missing file or folder. Returns None if it exists or belongs to an unknown data set.
    """
    path = Path(path)
    match = _recognise(path)
    if match is None or path.exists():
        return None
    folder, root = match
    how = folder.how.format(root=root)
    layout = f'expected there: {", ".join(folder.contents)}'
    if not root.exists():
        return f'{folder.name}: the folder {root} does not exist. To get it: {how} ({layout})'
    again = ' --force' if how.startswith('mmflatten ') else ''
    return (f'{folder.name}: {root} exists but {os.path.relpath(path, root)} is missing from it. '
            f'To get it: {how}{again} ({layout})')


def _recognise(path: Path) -> tuple[DataFolder, Path] | None:
    """Return the data set and its root folder: the last folder of the path with a known name."""
    if path.suffix.lower() not in DATA_SUFFIXES or NO_DATA_FOLDERS.intersection(path.parts):
        return None
    known = {alias: folder for folder in DATA_FOLDERS for alias in folder.aliases}
    for ancestor in (path, *path.parents):
        folder = known.get(ancestor.name.lower())
        if folder is not None:
            # `data/ade` is the parent of the folder in the configs.
            default = Path(folder.default_root)
            return folder, ancestor / default.name if ancestor.name == default.parent.name else ancestor
    return None
