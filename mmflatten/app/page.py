"""The page: its parts, and what happens when they are used."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import gradio as gr
import mmcv
import numpy as np

from mmflatten.app.attention import MEAN, attention_view
from mmflatten.app.pictures import check_picture
from mmflatten.app.tables import cost_table, result_table
from mmflatten.app.trial import Trial, TriedModel
from mmflatten.errors import explain
from mmflatten.explain.map_drawings import attention_pixels

SIDE = 640  # longer side of the pictures of the viewer
# One thing at a time: hooks see what every thread does with a model.
ALONE = dict(concurrency_id='models', concurrency_limit=1)


@dataclass(frozen=True, eq=False)
class Session:
    """What one browser tab looks at: RGB `(H, W, 3)` of the picture, scaled to `SIDE`, and each model's trial."""

    picture: np.ndarray
    trials: Sequence[Trial]


@dataclass(frozen=True)
class Parts:
    """The parts of the page that belong to one model; those of the viewer are None for a model without attention."""

    drawing: gr.Image
    results: gr.HTML
    cost: gr.HTML
    layer: gr.Dropdown | None = None
    head: gr.Dropdown | None = None
    map: gr.Image | None = None
    caption: gr.HTML | None = None


class Page:
    """One or two models on a picture that the user uploads, for stereo on a left and a right one.

    Every handler gives the parts that change and what they become. What a tab looks at is in its own `gr.State`.

    Attributes:
        blocks: what Gradio serves.
    """

    def __init__(self, models: Sequence[TriedModel]) -> None:
        self.models = models
        self.sides = ('left picture', 'right picture') if models[0].task.pairs else ('picture',)
        with gr.Blocks(title='mmflatten app', analytics_enabled=False, delete_cache=(3600, 3600)) as self.blocks:
            self.session = gr.State()
            names = ', '.join(f'<b>{escape(model.name)}</b> ({escape(model.weights)})' for model in models)
            gr.HTML('<h1>mmflatten</h1><p>What a trained model finds in your picture, where it attends, and what that '
                    f'costs. The picture stays on this computer.</p><p>Loaded: {names}</p>')
            self._add_inputs()
            self.message = gr.HTML(elem_id='message')
            with gr.Column(visible=False) as self.found:
                self._add_results()
            self._listen()

    def _add_inputs(self) -> None:
        with gr.Row(elem_id='inputs', equal_height=True):
            self.files = [gr.File(label=side.capitalize(), height=110, min_width=260) for side in self.sides]
            with gr.Column(min_width=260):
                self.score = gr.Slider(0, 1, .3, step=.05, label='Leave out instances with a lower score',
                                       visible=any(model.task.has_instances for model in self.models))
                self.button = gr.Button('Predict', variant='primary')

    def _add_results(self) -> None:
        with gr.Row():
            shown = [self._add_prediction(model) for model in self.models]
        if not any(model.attends for model in self.models):
            gr.HTML('<p>No model here has an attention of mmflatten to look at.</p>')
        with gr.Column(visible=any(model.attends for model in self.models)):
            gr.HTML('<h2>Where it attends</h2><p>Click a pixel of the picture, or name one by x and y. Each map shows '
                    'where this pixel attends in a layer: yellow is most; if some weights are negative, they are blue '
                    'and the others red.</p>')
            with gr.Row():
                with gr.Column(min_width=280):
                    gr.HTML('<h3>Your picture</h3>')
                    with gr.Row(elem_classes='choice'):
                        self.x = gr.Number(0, label='x', precision=0, minimum=0, min_width=80)
                        self.y = gr.Number(0, label='y', precision=0, minimum=0, min_width=80)
                    self.picture = _image('Your picture; click a pixel', elem_id='picture', buttons=[])
                self.parts = [self._add_viewer(model, parts) for model, parts in zip(self.models, shown)]

    def _add_prediction(self, model: TriedModel) -> Parts:
        with gr.Column(min_width=280):
            gr.HTML(f'<h2>{escape(model.name)}</h2><p>{escape(model.weights)}, {model.task.name}</p>')
            drawing = _image(f'Prediction of {model.name}', elem_classes='drawing')
            with gr.Row():
                with gr.Column(min_width=240):
                    results = gr.HTML()
                with gr.Column(min_width=240):
                    cost = gr.HTML()
        return Parts(drawing, results, cost)

    def _add_viewer(self, model: TriedModel, parts: Parts) -> Parts:
        if not model.attends:
            return parts
        with gr.Column(min_width=280):
            gr.HTML(f'<h3>{escape(model.name)}</h3>')
            with gr.Row(elem_classes='choice'):
                layer = gr.Dropdown([], label='Layer', filterable=False, min_width=150, scale=2)
                head = gr.Dropdown([('mean', MEAN)], value=MEAN, label='Head', filterable=False, min_width=110,
                                   scale=1)
            picture = _image(f'Attention of {model.name}', elem_classes='map')
            caption = gr.HTML()
        return Parts(parts.drawing, parts.results, parts.cost, layer, head, picture, caption)

    def _listen(self) -> None:
        viewers = [parts for parts in self.parts if parts.layer]
        chosen = [part for parts in viewers for part in (parts.layer, parts.head)]
        seen = [self.message, self.picture, self.x, self.y]
        seen += [part for parts in viewers for part in (parts.head, parts.map, parts.caption)]
        found = [self.session, self.found, *(part for parts in self.parts for part in (
            parts.drawing, parts.results, parts.cost)), *(parts.layer for parts in viewers)]
        gr.on([self.button.click, self.score.release, *(file.change for file in self.files)], self.predict,
              [self.score, *self.files], found + seen, api_name='predict', **ALONE)
        self.picture.select(self.click, [self.session, *chosen], seen, api_name=False, show_progress='hidden', **ALONE)
        gr.on([part.input for part in (self.x, self.y, *chosen)], self.attend,
              [self.session, self.x, self.y, *chosen], seen, api_name='attend', show_progress='hidden',
              trigger_mode='always_last', **ALONE)

    def predict(self, score: float, *files: str | None) -> dict:
        """Try every model on the picture; what cannot be used is said in the message, and nothing else is shown."""
        try:
            notes = self._check(files)
            trials = [model.try_on(files, score) for model in self.models]
        except (ValueError, OSError, RuntimeError) as error:
            return {self.message: _say('alert', _without_folders(explain(error), files)), self.session: None,
                    self.found: gr.Column(visible=False)}
        session = Session(mmcv.imrescale(mmcv.imread(files[0], channel_order='rgb'), (SIDE, SIDE)), trials)
        changed = {self.session: session, self.found: gr.Column(visible=True)}
        for model, parts, trial in zip(self.models, self.parts, trials):
            changed |= {parts.drawing: trial.drawing, parts.results: result_table(model, trial),
                        parts.cost: cost_table(model, trial)}
            if parts.layer:
                names = (f'{number}: {layer.name}' for number, layer in enumerate(trial.layers))
                changed[parts.layer] = gr.Dropdown([(name.replace(' backbone.', ' '), number)
                                                    for number, name in enumerate(names)], value=0)
        width, height = trials[0].size
        changed |= self.attend(session, width // 2, height // 2, *[0, MEAN] * len(self.models))
        return {**changed, self.message: _say('status', '; '.join(notes))}

    def click(self, event: gr.SelectData, session: Session | None, *chosen: int) -> dict:
        """Look from the pixel that was clicked in the scaled picture."""
        if session is None:
            return self.attend(None, 0, 0)
        width, height = session.trials[0].size
        shown_height, shown_width = session.picture.shape[:2]
        return self.attend(session, int(event.index[0] * width / shown_width),
                           int(event.index[1] * height / shown_height), *chosen)

    def attend(self, session: Session | None, x: float | None, y: float | None, *chosen: int) -> dict:
        """Look from a pixel of the picture, with the layer and the head chosen for each model that attends."""
        if session is None:
            return {self.message: _say('alert', 'There is no prediction to look into; upload the picture again.')}
        width, height = session.trials[0].size
        x, y = (int(min(max(0, place or 0), length - 1)) for place, length in ((x, width), (y, height)))
        scale = session.picture.shape[1] / width
        place = (x + .5) * scale - .5, (y + .5) * scale - .5
        changed: dict[Any, Any] = {self.picture: attention_pixels(session.picture, None, place, SIDE), self.x: x,
                                   self.y: y}
        attending = [(parts, trial) for parts, trial in zip(self.parts, session.trials) if parts.layer]
        for (parts, trial), number, head in zip(attending, chosen[::2], chosen[1::2]):
            layer = trial.layers[number]
            head = head if head < layer.num_heads else MEAN
            heads = [('mean', MEAN), *((f'{head}', head) for head in range(layer.num_heads))]
            pixels, said = attention_view(trial, layer, head, x, y, SIDE)
            changed |= {parts.head: gr.Dropdown(heads, value=head), parts.map: pixels,
                        parts.caption: f'<p>{escape(said)}</p>'}
        return changed

    def _check(self, files: Sequence[str | None]) -> list[str]:
        missing = [side for side, file in zip(self.sides, files) if file is None]
        if missing:
            raise ValueError(f'upload the {" and the ".join(missing)} first')
        return [note for file in files for note in check_picture(file)]


def _image(what: str, buttons: Sequence[str] = ('fullscreen',), **kwargs: str) -> gr.Image:
    """A picture of ours, without loss, whose name is for screen readers."""
    return gr.Image(show_label=False, alt_text=what, format='png', interactive=False, buttons=list(buttons), **kwargs)


def _say(role: str, text: str) -> str:
    return f'<p role="{role}">{escape(text)}</p>' if text else ''


def _without_folders(text: str, files: Sequence[str | None]) -> str:
    for file in filter(None, files):
        text = text.replace(file, file.replace('\\', '/').rpartition('/')[2])
    return text
