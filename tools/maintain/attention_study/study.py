"""Models on images, for the figures of their attentions."""
from __future__ import annotations

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


@dataclass(frozen=True)
class Options:
    """What the figures are of.

    Attributes:
        images: files.
        out: folder that the PNGs are written into.
        layer: number of the layer of maps and matrices.
        query: of maps, `(x, y)` in pixels of the picture as the network sees it; None for the middle.
        stage: whose receptive field is drawn, from 0 or, from the end, -1.
        device: that the models run on; None takes a GPU if there is one.
    """

    images: list[str]
    out: Path
    layer: int = 0
    query: tuple[int, int] | None = None
    stage: int = 0
    device: str | None = None


@dataclass
class Study:
    """A model and what its attentions did on every image."""

    label: str
    predictor: Predictor
    probes: list[AttentionProbe]
    pictures: list[np.ndarray]

    @classmethod
    def of(cls, label: str, config: str, checkpoint: str, options: Options) -> Study:
        """Run a model on the images; errors as in `probe_image`."""
        predictor = Predictor(config, checkpoint, options.device)
        probes, pictures = zip(*[probe_image(predictor, image) for image in options.images])
        return cls(label, predictor, list(probes), list(pictures))

    @property
    def layers(self) -> list[AttentionLayer]:
        """Of the first image."""
        return self.probes[0].layers

    def measure(self, of: Callable[[AttentionLayer], dict], when: Callable = lambda layer: True) -> list[dict]:
        """A record for each layer of a kind: the mean over the images."""
        return [dict(number=number, layer=layer.name, kind=layer.kind, heads=layer.num_heads, map=list(layer.hw),
                     keys=list(layer.kv_hw), **mean([of(probe.layers[number]) for probe in self.probes]))
                for number, layer in enumerate(self.layers) if when(layer)]

    def at(self, number: int, image: int = 0) -> AttentionLayer:
        """The layer of a number. Raises: ValueError: there is none."""
        layers = self.probes[image].layers
        if number >= len(layers):
            raise ValueError(f'layer ({number}) must be a number from 0 to {len(layers) - 1} for model {self.label}')
        return layers[number]


def save(options: Options, name: str, figure: Figure) -> None:
    """Write a figure as a PNG."""
    path = options.out / f'{name}.png'
    figure.savefig(path, dpi=80)
    shrink(path)


def shrink(path: Path) -> None:
    """Leave a PNG 256 colours, chosen to be close to all, which makes it about a third as large."""
    Image.open(path).convert('RGB').quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)
