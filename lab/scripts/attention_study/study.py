"""A model run on images, with its attention layers, for the figures."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from attention_study.measures import mean
from matplotlib.figure import Figure
from PIL import Image

from mmflatten.explain.attention import AttentionLayer, AttentionProbe
from mmflatten.explain.maps import probe_image
from mmflatten.predict.predictor import Predictor


@dataclass
class Study:
    """A model, and its attention layers recorded on every image."""

    label: str
    predictor: Predictor
    probes: list[AttentionProbe]
    pictures: list[np.ndarray]

    @classmethod
    def of(cls, label: str, config: str, checkpoint: str, options: Namespace) -> Study:
        """Run a model on the images. Raises the errors of `probe_image`."""
        predictor = Predictor(config, checkpoint, options.device)
        probes, pictures = zip(*[probe_image(predictor, image) for image in options.images])
        return cls(label, predictor, list(probes), list(pictures))

    @property
    def layers(self) -> list[AttentionLayer]:
        """Layers recorded on the first image."""
        return self.probes[0].layers

    def measure(
        self,
        measure_layer: Callable[[AttentionLayer], dict],
        when: Callable = lambda layer: True,
        reduce: Callable = mean,
    ) -> list[dict]:
        """Measure the layers for which `when` is true; returns a record per layer, reduced over the
        images.
        """
        records = []
        for number, layer in enumerate(self.layers):
            if not when(layer):
                continue
            of_images = [measure_layer(probe.layers[number]) for probe in self.probes]
            record = dict(
                number=number,
                layer=layer.name,
                kind=layer.kind,
                heads=layer.num_heads,
                map=list(layer.hw),
                keys=list(layer.kv_hw),
                **reduce(of_images),
            )
            records.append(record)
        return records

    def at(self, number: int, image: int = 0) -> AttentionLayer:
        """Return a layer by number. Raises ValueError if there is none."""
        layers = self.probes[image].layers
        if number >= len(layers):
            raise ValueError(
                f'--layer: expected a number from 0 to {len(layers) - 1} for model {self.label}, '
                f'got {number}.'
            )
        return layers[number]


def save(options: Namespace, name: str, figure: Figure) -> None:
    """Write a figure as a PNG."""
    path = options.out / f'{name}.png'
    figure.savefig(path, dpi=80)
    shrink(path)


def shrink(path: Path) -> None:
    """Reduce a PNG to a palette of 256 colours, which makes it about a third as large."""
    image = Image.open(path).convert('RGB')
    image.quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)
