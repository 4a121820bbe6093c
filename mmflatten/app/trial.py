"""Results of one model on one image: drawing, numbers, attention layers and cost."""
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mmcv
import numpy as np
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
    """Results of one model on one image.

    Attributes:
        size: `(width, height)` of the image.
        drawing: RGB `(H, W, 3)`, as drawn by `mmflatten predict`.
        record: the prediction as numbers, as returned by `ResultFolder.add`.
        sample: the prediction.
        network_input: RGB `(H, W, 3)`, the image after the test pipeline.
        layers: attention layers in model order, possibly none.
        seconds: time from the file to the prediction.
        cost: cost of a forward pass at the size of the network input, or the reason why it cannot be counted.
    """

    size: tuple[int, int]
    drawing: np.ndarray
    record: dict
    sample: BaseDataElement
    network_input: np.ndarray
    layers: Sequence[AttentionLayer]
    seconds: float
    cost: ModelCost | str


class TriedModel:
    """A config and a checkpoint, ready for images. Errors are those of `Predictor`.

    Attributes:
        name: name of the config.
        weights: file name of the checkpoint.
        processor: description of the CPU or GPU.
        attends: True if the model has attention layers.
    """

    def __init__(self, config: str, checkpoint: str, device: str | None = None) -> None:
        self.name, self.weights = Path(config).stem, Path(checkpoint).name
        self.predictor = Predictor(config, checkpoint, device)
        self.task, self.classes = self.predictor.spec, self.predictor.classes
        self.params = count_parameters(self.predictor.model)
        machine = describe_machine(self.predictor.device)
        self.processor = machine['gpu']
        if self.predictor.device == 'cpu':
            threads = '1 thread' if machine['threads'] == 1 else f'{machine["threads"]} threads'
            self.processor = f'{machine["processor"]}, {threads}'
        try:
            self.attends = bool(AttentionProbe(self.predictor.model).names)
        except ValueError:
            self.attends = False
        on_meta = build_on_meta(model_config(self.predictor.cfg), self.predictor.scope)

        @cache
        def cost_at(size: tuple[int, int]) -> ModelCost | str:
            try:
                return count_model(on_meta, size)
            except ValueError as error:
                return str(error)

        self._cost_at = cost_at

    def try_on(self, files: Sequence[str], score: float = 0.3) -> Trial:
        """Predict an image, or a left and a right image for stereo. Instances with a lower score are skipped.

        Raises:
            PredictionError: the image cannot be used.
            ValueError: as in `probe_image`.
        """
        image = tuple(files) if self.task.pairs else files[0]
        # The first run records the layers and serves as warm-up for the second one, which is timed.
        if self.attends:
            probe, network_input = probe_image(self.predictor, image)
            layers = probe.layers
        else:
            network_input, layers = network_picture(self.predictor, image), []
        samples: list[BaseDataElement] = []
        seconds = clock_of(self.predictor.device)(lambda: samples.append(self.predictor(image)), 1)
        with tempfile.TemporaryDirectory() as folder, ResultFolder(folder, self.predictor, score) as results:
            record = results.add(Input('picture', files[0], image), samples[0])
            drawing = mmcv.imread(f'{folder}/drawings/picture.png', channel_order='rgb')
        height, width = mmcv.imread(files[0]).shape[:2]
        return Trial((width, height), drawing, record, samples[0], network_input, layers, seconds,
                     self._cost_at(network_input.shape[:2]))
