"""Writing stereo pairs of scenes in the layout of SceneFlow.

::

    frames_cleanpass/{TRAIN,TEST}/A/0000/{left,right}/000000.png
    disparity/{TRAIN,TEST}/A/0000/left/000000.pfm                     pixels
    disparity_occlusions/{TRAIN,TEST}/A/0000/left/000000.png          255 for points hidden from the right camera
    scenes_{TRAIN,TEST}.json                                          objects and photograph of each scene
    contact_sheet.png  dataset.json
"""
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mmflatten.datasets.build import SPLITS, build
from mmflatten.datasets.stereo.files import read_image, read_mask, read_pfm, write_pfm
from mmflatten.datasets.stereo.visualizer import colour_map, side_by_side

from .build import SceneOptions, sample_scenes, write_png
from .digits import DIGITS
from .source import Source
from .stereo_scene import max_disparity, sample_stereo_scene

SCENEFLOW_FOLDERS = {'train': 'TRAIN', 'val': 'TEST'}  # SceneFlow's names of the splits
SEQUENCE = 'A/0000'
SHEET_SCENES = 3  # per split


@dataclass(frozen=True)
class StereoSceneOptions(SceneOptions):
    """Number of pairs per split, height of an image in pixels (the width is twice that), and seed."""

    train: int = 400
    val: int = 80
    size: int = 96
    views: int = field(default=2, init=False)  # distinguishes these scenes from those with a single view


def build_stereo_scenes(out: Path, options: StereoSceneOptions, source: Source = DIGITS, force: bool = False,
                        on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write stereo pairs and return the manifest; see `build_scenes`."""
    return build(out, f'{source.name} scenes', options, partial(_write_split, source, options), _draw_sheet, force,
                 on_image)


def _write_split(source: Source, options: StereoSceneOptions, root: Path, split: str) -> Iterator[int]:
    folders = [root / kind / SCENEFLOW_FOLDERS[split] / SEQUENCE / side for kind, side in (
        ('frames_cleanpass', 'left'), ('frames_cleanpass', 'right'), ('disparity', 'left'),
        ('disparity_occlusions', 'left'))]
    for folder in folders:
        folder.mkdir(parents=True)
    left, right, disparity, occlusion = folders
    scenes = []
    # `views` in the seed gives other scenes than with a single view.
    for name, scene in sample_scenes(source, options, split, sample_stereo_scene, options.views):
        write_png(left / f'{name}.png', scene.left)
        write_png(right / f'{name}.png', scene.right)
        write_pfm(disparity / f'{name}.pfm', scene.disparity)
        write_png(occlusion / f'{name}.png', scene.occluded.astype(np.uint8) * 255)
        scenes.append({'name': name, f'{source.number}s': scene.numbers, 'background': scene.background})
        yield len(scene.numbers)
    (root / f'scenes_{SCENEFLOW_FOLDERS[split]}.json').write_text(
        json.dumps(scenes, sort_keys=True, separators=(',', ':')) + '\n', encoding='ascii')


def _draw_sheet(root: Path) -> None:
    """Draw the first scenes of both splits, one row each, read back from the files."""
    rows = []
    for split in SPLITS:
        part = Path(SCENEFLOW_FOLDERS[split], SEQUENCE)
        for path in sorted((root / 'frames_cleanpass' / part / 'left').iterdir())[:SHEET_SCENES]:
            disparity = read_pfm(root / 'disparity' / part / 'left' / f'{path.stem}.pfm')
            occluded = read_mask(root / 'disparity_occlusions' / part / 'left' / path.name)
            top = max_disparity(len(disparity))
            rows.append(side_by_side([
                (f'{split} {path.stem}: left', read_image(path)[..., ::-1]),
                ('right', read_image(path.parents[1] / 'right' / path.name)[..., ::-1]),
                (f'disparity, 0 to {top:.0f} px', colour_map(disparity, top, cv2.COLORMAP_TURBO)),
                ('occluded', np.repeat(occluded[..., None] * np.uint8(255), 3, axis=2))]))
    write_png(root / 'contact_sheet.png', np.vstack(rows))
