"""Writes stereo pairs of scenes as SceneFlow is laid out, in a folder of their own.

::

    frames_cleanpass/{TRAIN,TEST}/A/0000/{left,right}/000000.png
    disparity/{TRAIN,TEST}/A/0000/left/000000.pfm                     pixels
    disparity_occlusions/{TRAIN,TEST}/A/0000/left/000000.png          255 where the right camera does not see the point
    scenes_{TRAIN,TEST}.json                                          which objects, and where the photograph was cut
    contact_sheet.png  dataset.json
"""
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from mmflatten.datasets.build import SPLITS, build
from mmflatten.datasets.stereo.files import read_image, read_mask, read_pfm, write_pfm
from mmflatten.datasets.stereo.visualizer import colour_map, side_by_side

from .build import SceneOptions
from .digits import DIGITS
from .layouts import write_png
from .source import Source
from .stereo_scene import StereoScene, max_disparity, sample_stereo_scene

FOLDERS = {'train': 'TRAIN', 'val': 'TEST'}  # SceneFlow's names of the splits
SEQUENCE = 'A/0000'
SHEET_SCENES = 3  # per split


@dataclass(frozen=True)
class StereoSceneOptions(SceneOptions):
    """What is made: pairs per split, height of a picture in pixels (it is twice as wide), and seed."""

    train: int = 400
    val: int = 80
    size: int = 96
    views: int = field(default=2, init=False)  # tells these scenes from those of one view


def build_stereo_scenes(out: Path, options: StereoSceneOptions, source: Source = DIGITS, force: bool = False,
                        on_image: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Write the pairs to ``out`` and return the manifest; as ``build_scenes`` otherwise."""
    return build(out, f'{source.name} scenes', options, partial(_write_split, source), draw_stereo_sheet, force,
                 on_image)


def _write_split(source: Source, root: Path, split: str, options: StereoSceneOptions,
                 on_image: Callable[[], Any]) -> int:
    """Write one split; returns its number of objects."""
    objects, photographs = source.load_objects(split), source.load_photographs(split)
    paths = {key: root / kind / FOLDERS[split] / SEQUENCE / side for key, (kind, side) in dict(
        left=('frames_cleanpass', 'left'), right=('frames_cleanpass', 'right'), disparity=('disparity', 'left'),
        occlusion=('disparity_occlusions', 'left')).items()}
    for folder in paths.values():
        folder.mkdir(parents=True)
    scenes: list[dict[str, Any]] = []
    for number in range(getattr(options, split)):
        # The last word makes other scenes of a seed than those of one view.
        rng = np.random.default_rng([options.seed, SPLITS.index(split), number, options.views])
        scene = sample_stereo_scene(rng, objects, photographs, options.size)
        _write_scene(paths, f'{number:06d}', scene)
        scenes.append({'name': f'{number:06d}', f'{source.number}s': list(scene.numbers), 'background': dict(
            photograph=scene.background.photograph, box=list(scene.background.box))})
        on_image()
    listing = root / f'scenes_{FOLDERS[split]}.json'
    listing.write_text(json.dumps(scenes, sort_keys=True, separators=(',', ':')) + '\n', encoding='ascii')
    return sum(len(scene[f'{source.number}s']) for scene in scenes)


def _write_scene(paths: dict[str, Path], name: str, scene: StereoScene) -> None:
    write_png(paths['left'] / f'{name}.png', scene.left)
    write_png(paths['right'] / f'{name}.png', scene.right)
    write_pfm(paths['disparity'] / f'{name}.pfm', scene.disparity)
    write_png(paths['occlusion'] / f'{name}.png', scene.occluded.astype(np.uint8) * 255)


def draw_stereo_sheet(root: Path) -> None:
    """Write ``contact_sheet.png``: the first scenes of both splits, read back from the files, a row each."""
    rows = []
    for split in SPLITS:
        part = Path(FOLDERS[split], SEQUENCE)
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
