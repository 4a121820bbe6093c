"""Stereo data sets in the layouts of SceneFlow and KITTI, and in folders of users."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mmflatten.data_folders import IMAGE_SUFFIXES
from mmflatten.datasets.bands import ARRAY_SUFFIX
from mmflatten.datasets.stereo.base import StereoDataset, require_folder
from mmflatten.registry import DATASETS
from mmflatten.untrusted.files import images_in, read_text, walk_links

FRAMES = {'clean': 'frames_cleanpass', 'final': 'frames_finalpass'}
KITTI_FOLDERS = {  # left, right, disparity, and disparity of points that both cameras see
    2012: ('colored_0', 'colored_1', 'disp_occ', 'disp_noc'),
    2015: ('image_2', 'image_3', 'disp_occ_0', 'disp_noc_0'),
}
DEFAULT_FOLDERS = dict(left='left', right='right', disparity='disparity')


@DATASETS.register_module()
class SceneFlowDataset(StereoDataset):
    """One of the three parts of SceneFlow (Mayer et al., CVPR 2016): FlyingThings3D, Monkaa and
    Driving.

        <data_root>/<subset>/frames_cleanpass/**/left/0006.png      or frames_finalpass, or .webp
        <data_root>/<subset>/frames_cleanpass/**/right/0006.png
        <data_root>/<subset>/disparity/**/left/0006.pfm
        <data_root>/<subset>/disparity_occlusions/**/left/0006.png  optional

    Pixels of an occlusion that are not 0 are hidden from the right camera. The digit scenes have
    the same layout. Files are paired by path.

    Args:
        subset: folder below `data_root`, such as 'flyingthings3d'; '' if `data_root` is the part
            itself.
        split: 'TRAIN' or 'TEST' (FlyingThings3D), or None without splits (Monkaa, Driving).
        render_pass: 'clean', or 'final' with motion blur and defocus.
        kwargs: arguments of `StereoDataset`.
    """

    def __init__(
        self, subset: str = '', split: str | None = None, render_pass: str = 'clean', **kwargs: Any
    ) -> None:
        if render_pass not in FRAMES:
            raise ValueError(
                f'render_pass ({render_pass!r}) must be one of {", ".join(map(repr, FRAMES))}'
            )
        if split not in (None, 'TRAIN', 'TEST'):
            raise ValueError(f"split ({split!r}) must be 'TRAIN' or 'TEST', or None")
        self.subset = subset
        self.split = split
        self.render_pass = render_pass
        super().__init__(**kwargs)

    def place(self) -> str:
        folder = Path(self.subset, FRAMES[self.render_pass], self.split or '')
        return f'{folder.as_posix()}/**/left/*.png or .webp'

    def pairs(self) -> Iterator[dict]:
        root, split = Path(self.data_root, self.subset), self.split or ''
        frames = require_folder(root / FRAMES[self.render_pass] / split)
        disparity = require_folder(root / 'disparity' / split)
        occlusion = root / 'disparity_occlusions' / split
        has_occlusion = occlusion.is_dir()
        # Scenes may be links to another disk, which `rglob` does not follow.
        folders = [Path(folder) for folder, _ in walk_links(frames)]
        for left in sorted(folder for folder in folders if folder.name == 'left'):
            scene = left.relative_to(frames)
            for image in images_in(left, ('.png', '.webp')):
                entry = dict(
                    img_path=str(image),
                    right_path=str(left.parent / 'right' / image.name),
                    disparity_path=str(disparity / scene / f'{image.stem}.pfm'),
                )
                if has_occlusion:
                    entry['occlusion_path'] = str(occlusion / scene / f'{image.stem}.png')
                yield entry


@DATASETS.register_module()
class KITTIStereoDataset(StereoDataset):
    """KITTI of 2012 (Geiger et al., CVPR 2012) or 2015 (Menze and Geiger, CVPR 2015), with sparse
    disparity.

        <data_root>/{training,testing}/{image_2,image_3}/000000_10.png
        <data_root>/training/{disp_occ_0,disp_noc_0}/000000_10.png

    These folders are those of 2015; those of 2012 are `colored_0`, `colored_1`, `disp_occ` and
    `disp_noc`. Only the first frames (`*_10.png`) have ground truth: `disp_occ`. Pixels missing
    from `disp_noc` are occluded. There is no official validation split. As in PSMNet's code,
    'train' is the first 160 pairs in the order of the names, and 'val' the others, 40 in 2015 and
    34 in 2012.

    Args:
        year: 2012 or 2015.
        split: 'train', 'val', 'trainval' (both) or 'test' (without ground truth).
        num_train: number of pairs in 'train'.
        kwargs: arguments of `StereoDataset`.
    """

    def __init__(
        self, year: int = 2015, split: str = 'train', num_train: int = 160, **kwargs: Any
    ) -> None:
        if year not in KITTI_FOLDERS:
            raise ValueError(f'year ({year!r}) must be one of {", ".join(map(str, KITTI_FOLDERS))}')
        if not isinstance(num_train, int) or num_train < 1:
            raise ValueError(
                f'num_train ({num_train!r}) must be a positive integer, the number of pairs in'
                " 'train'"
            )
        parts = dict(
            train=slice(num_train),
            val=slice(num_train, None),
            trainval=slice(None),
            test=slice(None),
        )
        if split not in parts:
            raise ValueError(f'split ({split!r}) must be one of {", ".join(map(repr, parts))}')
        self.folders = KITTI_FOLDERS[year]
        self.split, self.part = split, parts[split]
        self.num_train = num_train
        self.root = 'testing' if split == 'test' else 'training'
        super().__init__(**kwargs)

    def place(self) -> str:
        pattern = f'{self.root}/{self.folders[0]}/*_10.png'
        if self.split == 'val':
            return f'{pattern} after the first {self.num_train} (num_train)'
        return pattern

    def pairs(self) -> Iterator[dict]:
        root = Path(self.data_root, self.root)
        left, right, disparity, noc_disparity = (root / folder for folder in self.folders)
        images = images_in(require_folder(left), ('.png',))
        names = [path.name for path in images if path.stem.endswith('_10')]
        for name in names[self.part]:
            entry = dict(img_path=str(left / name), right_path=str(right / name))
            if self.split != 'test':
                entry.update(
                    disparity_path=str(disparity / name),
                    noc_disparity_path=str(noc_disparity / name),
                )
            yield entry


@DATASETS.register_module()
class StereoFolderDataset(StereoDataset):
    """Stereo pairs in three folders whose files share names.

        <left>/NAME.png           or .jpg, .webp, ..., or .npy with `LoadStereoPair(bands='all')`
        <right>/NAME.png          the same name
        <disparity>/NAME.pfm      pixels of the left image

    A disparity may also be a 16-bit NAME.png in 1/256 pixels, like KITTI's.

    Args:
        ann_file: text file with one NAME per line; '' for all images in `left`.
        data_prefix: folders `left`, `right` and, with ground truth, `disparity`, below `data_root`.
        kwargs: arguments of `StereoDataset`.
    """

    def __init__(
        self, ann_file: str = '', data_prefix: Mapping[str, str] = DEFAULT_FOLDERS, **kwargs: Any
    ) -> None:
        super().__init__(ann_file=ann_file, data_prefix=dict(data_prefix), **kwargs)

    def place(self) -> str:
        pattern = f'{self.data_prefix["left"]}/NAME.png'
        return f'{pattern}, with NAME in {self.ann_file}' if self.ann_file else pattern

    def pairs(self) -> Iterator[dict]:
        left = require_folder(Path(self.data_prefix['left']))
        right = Path(self.data_prefix['right'])
        files = images_in(left, IMAGE_SUFFIXES) or images_in(left, (ARRAY_SUFFIX,))
        images = {path.stem: path for path in files}
        names = read_text(self.ann_file).split('\n') if self.ann_file else sorted(images)
        for name in filter(None, names):
            image = images.get(name, left / f'{name}.png')
            entry = dict(img_path=str(image), right_path=str(right / image.name))
            if 'disparity' in self.data_prefix:
                folder = Path(self.data_prefix['disparity'])
                entry['disparity_path'] = str(disparity_of(folder, name))
            yield entry


def disparity_of(folder: Path, name: str) -> Path:
    """Return the disparity file of a pair: the PFM unless only a PNG exists."""
    pfm, png = folder / f'{name}.pfm', folder / f'{name}.png'
    return png if png.is_file() and not pfm.is_file() else pfm
