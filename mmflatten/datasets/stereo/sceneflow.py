"""SceneFlow (Mayer et al., CVPR 2016): FlyingThings3D, Monkaa and Driving."""
from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mmflatten.datasets.stereo.base import StereoDataset, images_in, require_folder
from mmflatten.registry import DATASETS

FRAMES = {'clean': 'frames_cleanpass', 'final': 'frames_finalpass'}
SCENEFLOW_SPLITS = ('TRAIN', 'TEST')


@DATASETS.register_module()
class SceneFlowDataset(StereoDataset):
    """One of the three parts of SceneFlow, in the layout of its archives.

        <data_root>/<subset>/frames_cleanpass/**/left/0006.png      or frames_finalpass, or .webp
        <data_root>/<subset>/frames_cleanpass/**/right/0006.png
        <data_root>/<subset>/disparity/**/left/0006.pfm
        <data_root>/<subset>/disparity_occlusions/**/left/0006.png  optional: not 0 where hidden from the right camera

    The digit scenes have the same layout. Files are paired by path.

    Args:
        subset: folder below `data_root`, such as 'flyingthings3d'; '' if `data_root` is the part itself.
        split: 'TRAIN' or 'TEST' (FlyingThings3D), or None without splits (Monkaa, Driving).
        render_pass: 'clean', or 'final' with motion blur and defocus.
        kwargs: arguments of `StereoDataset`.
    """

    def __init__(self, subset: str = '', split: str | None = None, render_pass: str = 'clean', **kwargs: Any) -> None:
        if render_pass not in FRAMES:
            raise ValueError(f'render_pass ({render_pass!r}) must be one of {", ".join(map(repr, FRAMES))}')
        if split not in (None, *SCENEFLOW_SPLITS):
            raise ValueError(f'split ({split!r}) must be {" or ".join(map(repr, SCENEFLOW_SPLITS))}, or None')
        self.subset, self.split, self.render_pass = subset, split, render_pass
        super().__init__(**kwargs)

    def place(self) -> str:
        return Path(self.subset, FRAMES[self.render_pass], self.split or '', '**/left/*.png').as_posix() + ' or .webp'

    def pairs(self) -> Iterator[dict]:
        root = Path(self.data_root, self.subset)
        part = self.split or ''
        frames = require_folder(root / FRAMES[self.render_pass] / part)
        disparity = require_folder(root / 'disparity' / part)
        occlusion = root / 'disparity_occlusions' / part
        has_occlusion = occlusion.is_dir()
        # Scenes may be links to another disk, which `rglob` does not follow.
        for left in sorted(Path(folder) for folder, _, _ in os.walk(frames, followlinks=True)
                           if os.path.basename(folder) == 'left'):
            scene = left.parent.relative_to(frames)
            for image in images_in(left):
                entry = dict(
                    img_path=str(image),
                    right_path=str(left.parent / 'right' / image.name),
                    disparity_path=str(disparity / scene / 'left' / f'{image.stem}.pfm'))
                if has_occlusion:
                    entry['occlusion_path'] = str(occlusion / scene / 'left' / f'{image.stem}.png')
                yield entry
