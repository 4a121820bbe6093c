"""What a model makes of a picture: the drawing, the numbers, its layers of attention, and what that cost."""
from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import mmcv
import numpy as np
import torch
from mmengine.structures import BaseDataElement

from mmflatten.building import model_config
from mmflatten.explain.attention import AttentionLayer, AttentionProbe
from mmflatten.explain.maps import network_picture, probe_image
from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.flops.model_cost import ModelCost, count_model, count_parameters
from mmflatten.measure.speed.machine import describe_machine
from mmflatten.measure.speed.timing import clock_of
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import Predictor
from mmflatten.predict.results import ResultFolder


@dataclass(frozen=True, eq=False)
class Trial:
    """One model on one picture.

    Attributes:
        size: `(width, height)` of the picture.
        drawing: RGB `(H, W, 3)`, as `mmflatten predict` draws it.
        record: the prediction in numbers, as `ResultFolder.add` gives it.
        sample: the prediction itself.
        seen: RGB `(H, W, 3)`, the picture as the backbone saw it.
        layers: of attention, in the model's order; empty for a model without.
        seconds: from the file to the prediction.
        cost: of a forward pass at the size that the backbone saw, or why it could not be counted.
    """

    size: tuple[int, int]
    drawing: np.ndarray
    record: dict
    sample: BaseDataElement
    seen: np.ndarray
    layers: Sequence[AttentionLayer]
    seconds: float
    cost: ModelCost | str


class TriedModel:
    """A config and a checkpoint, loaded and ready for pictures; errors are those of `Predictor`.

    Attributes:
        name: of the config.
        weights: name of the checkpoint's file.
        processor: what runs it, in words.
    """

    def __init__(self, config: str, checkpoint: str, device: str | None = None) -> None:
        self.name, self.weights = Path(config).stem, Path(checkpoint).name
        self.predictor = Predictor(config, checkpoint, device)
        self.task, self.classes = self.predictor.spec, self.predictor.classes
        self.params = count_parameters(self.predictor.model)
        self.processor = _processor(self.predictor.device)
        try:
            self.attends = bool(AttentionProbe(self.predictor.model).names)
        except ValueError:
            self.attends = False
        self._on_meta = build_on_meta(model_config(self.predictor.cfg), self.predictor.scope)
        self._costs: dict[tuple[int, int], ModelCost | str] = {}

    def try_on(self, files: Sequence[str], score: float = 0.3) -> Trial:
        """Predict from a picture, for stereo from a left and a right one.

        Args:
            score: instances below it are left out.

        Raises:
            PredictionError: the picture cannot be used.
            ValueError: as `probe_image` has it.
        """
        image = tuple(files) if self.task.pairs else files[0]
        # The first of two runs sees the layers, and warms up for the second, which is timed.
        probe, seen = probe_image(self.predictor, image) if self.attends else (
            None, network_picture(self.predictor, image))
        samples: list[BaseDataElement] = []
        seconds = clock_of(self.predictor.device)(lambda: samples.append(self.predictor(image)), 1)
        with tempfile.TemporaryDirectory() as folder, ResultFolder(folder, self.predictor, score) as results:
            record = results.add(Input('picture', files[0], image), samples[0])
            drawing = mmcv.imread(f'{folder}/drawings/picture.png', channel_order='rgb')
        height, width = mmcv.imread(files[0]).shape[:2]
        return Trial((width, height), drawing, record, samples[0], seen, probe.layers if probe else (), seconds,
                     self._cost(seen.shape[:2]))

    def _cost(self, size: tuple[int, int]) -> ModelCost | str:
        if size not in self._costs:
            try:
                self._costs[size] = count_model(self._on_meta, size)
            except ValueError as error:
                self._costs[size] = str(error)
        return self._costs[size]


def _processor(device: str) -> str:
    machine = describe_machine(device)
    if torch.device(device).type == 'cuda':
        return str(machine['gpu'])
    return f'{machine["processor"]}, {machine["threads"]} thread{"" if machine["threads"] == 1 else "s"}'
