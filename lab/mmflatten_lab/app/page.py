"""The page: components and event handlers."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from mmflatten.console import explain
from mmflatten_lab.app.pictures import attention_pixels, check_picture
from mmflatten_lab.app.trial import MEAN, SIDE, Trial, TriedModel, attention_view, result_table

# One event at a time, because hooks would record the calls of all threads.
ALONE = dict(concurrency_id='models', concurrency_limit=1)
# System fonts, because others would be downloaded.
THEME = gr.themes.Base(
    primary_hue='blue', font=('system-ui', 'sans-serif'), font_mono=('ui-monospace', 'monospace')
)
CSS = """
.gradio-container h2, .gradio-container p { overflow-wrap: anywhere }
#message [role=alert] { border-left: 4px solid #d33; padding: 0.6rem 0.9rem }
.drawing img { width: 100%; height: auto; max-height: 26rem; object-fit: contain }
.map img, #picture img { max-width: 100%; max-height: 30rem; width: auto; height: auto }
#picture img { cursor: crosshair }
table.numbers tr > * { text-align: right }
table.numbers tr > :first-child { text-align: left }
"""


@dataclass(eq=False)
class Parts:
    """Components of one model. Those of the viewer are None for a model without attention."""

    drawing: gr.Image
    results: gr.HTML
    layer: gr.Dropdown | None = None
    head: gr.Dropdown | None = None
    map: gr.Image | None = None
    caption: gr.HTML | None = None


class Page:
    """Page with one or two models for an uploaded image, or for a left and a right image for
    stereo.

    Event handlers return the new values of the components that change. `blocks` is the Gradio app.
    The session of a browser tab is the trial of each model on its image.
    """

    def __init__(self, models: Sequence[TriedModel]) -> None:
        self.models = models
        self.sides = ('left image', 'right image') if models[0].task.pairs else ('image',)
        names = ', '.join(
            f'<b>{escape(model.name)}</b> ({escape(model.weights)})' for model in models
        )
        with gr.Blocks(
            title='mmflatten app', analytics_enabled=False, delete_cache=(3600, 3600)
        ) as self.blocks:
            self.session = gr.State()
            gr.HTML(
                '<h1>mmflatten</h1><p>Predictions and attention of a trained model for your image.'
                f' The image stays on this computer.</p><p>Loaded: {names}</p>'
            )
            with gr.Row(elem_id='inputs', equal_height=True):
                self.files = [
                    gr.File(label=side.capitalize(), height=110, min_width=260)
                    for side in self.sides
                ]
                with gr.Column(min_width=260):
                    self.score = gr.Slider(
                        0,
                        1,
                        0.3,
                        step=0.05,
                        label='Minimum score of instances',
                        visible=any(model.task.has_instances for model in models),
                    )
                    self.button = gr.Button('Predict', variant='primary')
            self.message = gr.HTML(elem_id='message')
            with gr.Column(visible=False) as self.results:
                with gr.Row():
                    self.parts = [_prediction(model) for model in models]
                self._build_viewers()
            self._register_events()

    def _build_viewers(self) -> None:
        attends = any(model.attends for model in self.models)
        if not attends:
            gr.HTML('<p>None of the models has an attention of mmflatten.</p>')
        with gr.Column(visible=attends):
            gr.HTML(
                '<h2>Attention</h2><p>Click a pixel of the image, or enter x and y. Each map shows'
                ' the attention weights of this pixel in a layer. Yellow marks the largest weights.'
                ' In maps with negative weights, positive weights are red and negative weights'
                ' blue.</p>'
            )
            with gr.Row():
                with gr.Column(min_width=280):
                    gr.HTML('<h3>Your image</h3>')
                    with gr.Row(elem_classes='choice'):
                        self.x = gr.Number(0, label='x', precision=0, minimum=0, min_width=80)
                        self.y = gr.Number(0, label='y', precision=0, minimum=0, min_width=80)
                    self.picture = _image(
                        'Your image. Click a pixel.', elem_id='picture', buttons=[]
                    )
                for model, parts in zip(self.models, self.parts):
                    if model.attends:
                        _add_viewer(model, parts)

    def _register_events(self) -> None:
        viewers = [parts for parts in self.parts if parts.layer]
        chosen = []
        view = [self.message, self.picture, self.x, self.y]
        for parts in viewers:
            chosen += [parts.layer, parts.head]
            view += [parts.head, parts.map, parts.caption]
        outputs = [self.session, self.results]
        for parts in self.parts:
            outputs += [parts.drawing, parts.results]
        outputs += [parts.layer for parts in viewers]
        triggers = [self.button.click, self.score.release]
        triggers += [file.change for file in self.files]
        gr.on(
            triggers,
            fn=self.predict,
            inputs=[self.score, *self.files],
            outputs=outputs + view,
            api_name='predict',
            **ALONE,
        )
        self.picture.select(
            fn=self.click,
            inputs=[self.session, *chosen],
            outputs=view,
            api_name=False,
            show_progress='hidden',
            **ALONE,
        )
        gr.on(
            [part.input for part in (self.x, self.y, *chosen)],
            fn=self.attend,
            inputs=[self.session, self.x, self.y, *chosen],
            outputs=view,
            api_name='attend',
            show_progress='hidden',
            trigger_mode='always_last',
            **ALONE,
        )

    def predict(self, score: float, *files: str | None) -> dict:
        """Run all models on the image, or show only a message if the image cannot be used."""
        try:
            if None in files:
                missing = [side for side, file in zip(self.sides, files) if file is None]
                raise ValueError(f'Upload the {" and the ".join(missing)} first.')
            for file in files:
                check_picture(file)
            trials = [model.try_on(files, score) for model in self.models]
        except (ValueError, OSError, RuntimeError) as error:
            text = explain(error)
            for file in filter(None, files):
                text = text.replace(file, Path(file).name)
            return {
                self.message: _alert(text),
                self.session: None,
                self.results: gr.Column(visible=False),
            }
        changed = {self.session: trials, self.results: gr.Column(visible=True)}
        for model, parts, trial in zip(self.models, self.parts, trials):
            changed |= {parts.drawing: trial.drawing, parts.results: result_table(model, trial)}
            if parts.layer:
                names = []
                for number, layer in enumerate(trial.layers):
                    name = f'{number}: {layer.name}'.replace(' backbone.', ' ')
                    names.append((name, number))
                changed[parts.layer] = gr.Dropdown(names, value=0)
        width, height = trials[0].size
        changed |= self.attend(trials, width // 2, height // 2, *[0, MEAN] * len(self.models))
        return {**changed, self.message: ''}

    def click(self, event: gr.SelectData, session: Sequence[Trial] | None, *chosen: int) -> dict:
        """Show the attention of the clicked pixel of the scaled image."""
        if session is None:
            return self.attend(None, 0, 0)
        scale = session[0].size[0] / session[0].picture.shape[1]
        x, y = event.index
        return self.attend(session, int(x * scale), int(y * scale), *chosen)

    def attend(
        self, session: Sequence[Trial] | None, x: float | None, y: float | None, *chosen: int
    ) -> dict:
        """Show the attention of a pixel of the image, in the layer and head selected for each
        model.
        """
        if session is None:
            return {self.message: _alert('No prediction available. Upload the image again.')}
        width, height = session[0].size
        picture = session[0].picture
        # An empty field counts as 0.
        x = int(min(max(0, x or 0), width - 1))
        y = int(min(max(0, y or 0), height - 1))
        scale = picture.shape[1] / width
        place = (x + 0.5) * scale - 0.5, (y + 0.5) * scale - 0.5
        changed: dict[Any, Any] = {
            self.picture: attention_pixels(picture, weights=None, query=place, side=SIDE),
            self.x: x,
            self.y: y,
        }
        attending = [(parts, trial) for parts, trial in zip(self.parts, session) if parts.layer]
        for (parts, trial), number, head in zip(attending, chosen[::2], chosen[1::2]):
            layer = trial.layers[number]
            head = head if head < layer.num_heads else MEAN
            heads = [('mean', MEAN)]
            heads += [(str(number), number) for number in range(layer.num_heads)]
            pixels, caption = attention_view(trial, layer, head, x, y, SIDE)
            changed |= {
                parts.head: gr.Dropdown(heads, value=head),
                parts.map: pixels,
                parts.caption: f'<p>{escape(caption)}</p>',
            }
        return changed


def _prediction(model: TriedModel) -> Parts:
    with gr.Column(min_width=280):
        gr.HTML(f'<h2>{escape(model.name)}</h2><p>{escape(model.weights)}, {model.task.name}</p>')
        drawing = _image(f'Prediction of {model.name}', elem_classes='drawing')
        results = gr.HTML()
    return Parts(drawing, results)


def _add_viewer(model: TriedModel, parts: Parts) -> None:
    with gr.Column(min_width=280):
        gr.HTML(f'<h3>{escape(model.name)}</h3>')
        with gr.Row(elem_classes='choice'):
            parts.layer = gr.Dropdown([], label='Layer', filterable=False, min_width=150, scale=2)
            parts.head = gr.Dropdown(
                [('mean', MEAN)], value=MEAN, label='Head', filterable=False, min_width=110, scale=1
            )
        parts.map = _image(f'Attention of {model.name}', elem_classes='map')
        parts.caption = gr.HTML()


def _image(name: str, buttons: Sequence[str] = ('fullscreen',), **kwargs: str) -> gr.Image:
    """Build an image component without lossy compression. The name is for screen readers."""
    return gr.Image(
        show_label=False,
        alt_text=name,
        format='png',
        interactive=False,
        buttons=list(buttons),
        **kwargs,
    )


def _alert(text: str) -> str:
    return f'<p role="alert">{escape(text)}</p>'
