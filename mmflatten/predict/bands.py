"""Images whose bands a config's test pipeline reads: OpenMMLab's inferencers read three colours
alone.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.config import Config
from mmengine.dataset import Compose, pseudo_collate

from mmflatten.engine.datasets import first_config
from mmflatten.engine.image_input import bands_of, loading_step
from mmflatten.tasks import task_of


def loads_bands(cfg: Config) -> bool:
    """Return True if the test pipeline of a config reads bands."""
    return bands_of(cfg) is not None


def with_colours(cfg: Config) -> Config:
    """Return a copy of a config whose test pipeline an inferencer accepts; it is not used."""
    colours = copy.deepcopy(cfg)
    steps = first_config(colours.test_dataloader.dataset).pipeline
    steps[0] = type(steps[0])(loading_step(task_of(cfg).scope, bands=None))
    return colours


class BandsPipeline:
    """Test pipeline of a config on files, without their truth."""

    def __init__(self, cfg: Config) -> None:
        steps = first_config(cfg.test_dataloader.dataset).pipeline
        self._steps = Compose([step for step in steps if not _is_truth(step)])

    def __call__(self, images: Sequence[str | tuple[str, str]]) -> Any:
        """Return `inputs` and `data_samples` of a batch of files, or of pairs of files."""
        samples = []
        for image in images:
            fields = dict(img_path=image, img_id=0)
            if isinstance(image, tuple):
                fields = dict(img_path=image[0], right_path=image[1])
            samples.append(self._steps(fields))
        return pseudo_collate(samples)


def _is_truth(step: Mapping[str, Any]) -> bool:
    name = str(step['type'])
    return 'Annotations' in name or 'LoadDisparity' in name
