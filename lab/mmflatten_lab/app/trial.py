"""Results of one model on one image: drawing, table and attention maps."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import mmcv
import numpy as np
from mmengine.structures import BaseDataElement

from mmflatten.explain.attention import AttentionLayer, AttentionProbe
from mmflatten.explain.maps import network_picture, probe_image
from mmflatten.predict.inputs import Input
from mmflatten.predict.predictor import Predictor
from mmflatten.predict.results import ResultFolder
from mmflatten_lab.app.pictures import attention_pixels

MEAN = -1  # head index that selects the mean over the heads
SIDE = 640  # longer side of a displayed image
ROWS = 12  # of a table
HEADER = dict(
    classification=('class', 'score'),
    detection=('instance', 'score', 'x', 'y', 'width', 'height'),
    panoptic=('segment', 'fraction'),
    segmentation=('class', 'fraction'),
    stereo=('disparity', 'pixels'),
)


@dataclass(frozen=True, eq=False)
class Trial:
    """Results of one model on one image."""

    size: tuple[int, int]  # (width, height) of the image
    picture: np.ndarray  # RGB (H, W, 3), the image scaled to `SIDE`
    drawing: np.ndarray  # RGB (H, W, 3), as drawn by `mmflatten predict`
    record: dict  # the prediction as numbers, as returned by `ResultFolder.add`
    sample: BaseDataElement  # the prediction
    network_input: np.ndarray  # RGB (H, W, 3), the image after the test pipeline
    layers: Sequence[AttentionLayer]  # in model order, possibly none


class TriedModel:
    """A config and a checkpoint, ready for images. Errors are those of `Predictor`."""

    def __init__(self, config: str, checkpoint: str, device: str | None = None) -> None:
        self.name, self.weights = Path(config).stem, Path(checkpoint).name
        self.predictor = Predictor(config, checkpoint, device)
        self.task, self.classes = self.predictor.task, self.predictor.classes
        try:
            self.attends = bool(AttentionProbe(self.predictor.model).names)
        except ValueError:
            self.attends = False

    def try_on(self, files: Sequence[str], score: float = 0.3) -> Trial:
        """Predict an image, or a left and a right image for stereo. Errors are those of
        `probe_image`.

        Instances with a score below `score` are skipped.
        """
        image = tuple(files) if self.task.pairs else files[0]
        if self.attends:
            probe, network_input = probe_image(self.predictor, image)
            layers = probe.layers
        else:
            network_input, layers = network_picture(self.predictor, image), []
        sample = self.predictor(image)
        with (
            tempfile.TemporaryDirectory() as folder,
            ResultFolder(folder, self.predictor, score) as results,
        ):
            record = results.add(Input('picture', files[0], image), sample)
            drawing = mmcv.imread(f'{folder}/drawings/picture.png', channel_order='rgb')
        picture = mmcv.imread(files[0], channel_order='rgb')
        return Trial(
            size=picture.shape[1::-1],
            picture=mmcv.imrescale(picture, (SIDE, SIDE)),
            drawing=drawing,
            record=record,
            sample=sample,
            network_input=network_input,
            layers=layers,
        )


def result_table(model: TriedModel, trial: Trial) -> str:
    """Format the numbers of a prediction as an HTML table, at most `ROWS`, the largest score or
    fraction first.
    """
    found = next((part for part in trial.record.values() if isinstance(part, list)), ())
    rows = []
    for one in found:
        name = one.get('name') or model.classes[one['category_id']]
        score = one.get('score', one.get('share'))
        box = [f'{value:.0f}' for value in one.get('bbox', ())]
        rows.append((name, f'{score:.4f}', *box))
    rows = sorted(rows, key=lambda row: row[1], reverse=True)[:ROWS]
    if not rows:
        for name in ('min', 'mean', 'max'):
            if name in trial.record:
                rows.append((name, f'{trial.record[name]:.2f}'))
    head = ''.join(f'<th scope="col">{name}</th>' for name in HEADER[model.task.name])
    body = ''
    for row in rows:
        cells = ''.join(f'<td>{escape(cell)}</td>' for cell in row)
        body += f'<tr>{cells}</tr>'
    return f'<table class="numbers"><thead>{head}</thead>{body}</table>'


def network_pixel(trial: Trial, x: float, y: float) -> tuple[float, float] | None:
    """Map the centre of an image pixel to coordinates of the network input, or to None if it is
    outside of the input.

    Images are resized, then centre-cropped, then padded: at the right and bottom, but for stereo at
    the right and top.
    """
    width, height = trial.size
    input_height, input_width = trial.network_input.shape[:2]
    meta = trial.sample.metainfo
    inside_height, inside_width = meta.get('img_shape', (input_height, input_width))[:2]
    stereo = 'pred_disparity' in trial.sample
    if stereo:
        scale_x, scale_y = 1.0, 1.0
    else:
        fitted = (inside_width / width, inside_height / height)
        scale_x, scale_y = meta.get('scale_factor', fitted)
    x = (x + 0.5) * scale_x - max(0.0, width * scale_x - inside_width) / 2
    y = (y + 0.5) * scale_y - max(0.0, height * scale_y - inside_height) / 2
    if stereo:
        y += input_height - height
    return (x, y) if 0 <= x < input_width and 0 <= y < input_height else None


def attention_view(
    trial: Trial,
    layer: AttentionLayer,
    head: int,
    x: float,
    y: float,
    side: int,
) -> tuple[np.ndarray, str]:
    """Draw the attention map of the pixel `x, y` of the uploaded image, and describe it in one
    line.

    The map is drawn over the network input, with `side` as the longer side in pixels.
    """
    place = network_pixel(trial, x, y)
    if place is None:
        pixels = attention_pixels(trial.network_input, weights=None, query=None, side=side)
        return pixels, 'The network does not see this pixel.'
    row = layer.row(layer.token_at(*place, trial.network_input.shape[:2])).cpu()
    row = row.mean(0) if head == MEAN else row[head]
    weights = layer.on_map(row).numpy()
    text = (
        f'{layer.kind}: {layer.hw[0]} × {layer.hw[1]} queries, {layer.kv_hw[0]} × {layer.kv_hw[1]}'
        f' keys. The weights of the query sum to {row.sum():.3g}; the largest is'
        f' {np.abs(weights).max():.2g}.'
    )
    query = (place[0] - 0.5, place[1] - 0.5)
    return attention_pixels(trial.network_input, weights, query=query, side=side), text
