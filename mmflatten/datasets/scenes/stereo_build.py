"""Writing stereo pairs of scenes in the layout of SceneFlow.

::

    frames_cleanpass/{TRAIN,TEST}/A/0000/{left,right}/000000.png
    disparity/{TRAIN,TEST}/A/0000/left/000000.pfm                     pixels
    disparity_occlusions/{TRAIN,TEST}/A/0000/left/000000.png          255 for points hidden from the right camera
    scenes_{TRAIN,TEST}.json                                          objects and photograph of each scene
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
    return build(out, f'{source.name} scenes', options, partial(_write_split, source), _draw_sheet, force,
                 on_image)


def _write_split(source: Source, root: Path, split: str, options: StereoSceneOptions,
                 on_image: Callable[[], Any]) -> int:
    objects, photographs = source.load_objects(split), source.load_photographs(split)
    paths = {key: root / kind / SCENEFLOW_FOLDERS[split] / SEQUENCE / side for key, (kind, side) in dict(
        left=('frames_cleanpass', 'left'), right=('frames_cleanpass', 'right'), disparity=('disparity', 'left'),
        occlusion=('disparity_occlusions', 'left')).items()}
    for folder in paths.values():
        folder.mkdir(parents=True)
    scenes: list[dict[str, Any]] = []
    for number in range(getattr(options, split)):
        # `views` in the seed gives other scenes than with a single view.
        rng = np.random.default_rng([options.seed, SPLITS.index(split), number, options.views])
        scene = sample_stereo_scene(rng, objects, photographs, options.size)
        _write_scene(paths, f'{number:06d}', scene)
        scenes.append({'name': f'{number:06d}', f'{source.number}s': list(scene.numbers), 'background': dict(
            photograph=scene.background.photograph, box=list(scene.background.box))})
        on_image()
    listing = root / f'scenes_{SCENEFLOW_FOLDERS[split]}.json'
    listing.write_text(json.dumps(scenes, sort_keys=True, separators=(',', ':')) + '\n', encoding='ascii')
    return sum(len(scene[f'{source.number}s']) for scene in scenes)


def _write_scene(paths: dict[str, Path], name: str, scene: StereoScene) -> None:
    write_png(paths['left'] / f'{name}.png', scene.left)
    write_png(paths['right'] / f'{name}.png', scene.right)
    write_pfm(paths['disparity'] / f'{name}.pfm', scene.disparity)
    write_png(paths['occlusion'] / f'{name}.png', scene.occluded.astype(np.uint8) * 255)


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
