"""Use an installed mmflatten in an empty folder, from the first prediction to the app, and write
results.json.
"""

import contextlib
import io
import json
import urllib.request
from pathlib import Path

import mmflatten
from mmflatten.apis import get_model, list_models
from mmflatten.cli.main import main

NAME, OTHER = 'flatten-swin-nano_digits', 'l2vit-nano_digits'
IMAGES, ANNOTATIONS, CROPS = (
    'data/digits/images',
    'data/digits/annotations',
    'data/digits/crops/val/*/*.png',
)


def run(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(arguments) == 0, arguments
    return output.getvalue()


def loaders(*splits: str) -> list[str]:
    """Return options that load the images of these splits without worker processes."""
    options = []
    for split in splits:
        options.append(f'{split}_dataloader.num_workers=0')
        options.append(f'{split}_dataloader.persistent_workers=False')
    return options


results = dict(
    file=mmflatten.__file__,
    models=list_models('*nano_digits', task='classification'),
    kind=type(get_model(NAME, **{'backbone.drop_path_rate': 0.0})).__name__,
    flops=run('flops', NAME, f'configs/digits/{OTHER}.py'),
)
run('data', 'digits', '--train', '4', '--val', '2', '--size', '96')
run('predict', 'garment-classifier', CROPS, '--out', 'first')
run('train', NAME, '--cfg-options', 'train_cfg.max_epochs=1', *loaders('train', 'val'))
checkpoint = Path(f'work_dirs/{NAME}/last_checkpoint').read_text()
run('test', NAME, checkpoint, '--out', 'tested.pkl', '--cfg-options', *loaders('test'))
run('predict', NAME, checkpoint, CROPS, '--out', 'found')
run('export', NAME, checkpoint, '--out', 'model.onnx')
run(
    'init',
    '--task',
    'det',
    '--base',
    'retinanet_flatten-swin-nano_fpn_digits',
    '--out',
    'mine.py',
    '--images',
    f'{IMAGES}/training',
    f'{IMAGES}/validation',
    '--ann',
    f'{ANNOTATIONS}/instances_train.json',
    f'{ANNOTATIONS}/instances_val.json',
    '--classes',
    *'012346789',
)  # no training scene has a 5

import gradio.analytics  # noqa: E402
import huggingface_hub.constants  # noqa: E402

from mmflatten_lab.app.server import serve  # noqa: E402
from mmflatten_lab.app.trial import TriedModel  # noqa: E402

with serve([TriedModel(NAME, checkpoint, 'cpu')]) as page:
    results['page'] = urllib.request.urlopen(page.local_url).status
results['reports_use'] = dict(
    gradio=gradio.analytics.analytics_enabled(),
    hub=not huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY,
)
Path('results.json').write_text(json.dumps(results))
