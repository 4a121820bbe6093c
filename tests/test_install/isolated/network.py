"""Use most commands that need other libraries, and print the switches of those libraries."""
import glob
import json
import urllib.request

from mmflatten.app.server import serve
from mmflatten.app.trial import TriedModel
from mmflatten.cli.main import main

NAME = 'flatten-swin-nano_digits'


def run(*arguments: str) -> None:
    assert main(arguments) == 0, arguments


run('models', '*nano_digits')
run('data', 'digits', '--train', '4', '--val', '2', '--size', '96')
run('train', NAME, '--track', 'tensorboard', '--cfg-options', 'train_cfg.max_epochs=1', *(
    f'{split}_dataloader.{option}' for split in ('train', 'val')
    for option in ('num_workers=0', 'persistent_workers=False')))
with open(f'work_dirs/{NAME}/last_checkpoint') as file:
    checkpoint = file.read()
run('export', NAME, checkpoint, '--format', 'openvino', '--out', 'model.xml')
run('predict', NAME, checkpoint, glob.glob('data/digits/crops/val/*/*.png')[0], '--out', 'found')
with serve([TriedModel(NAME, checkpoint, 'cpu')]) as page:
    urllib.request.urlopen(page.local_url).read()

import gradio.analytics  # noqa: E402
import huggingface_hub.constants  # noqa: E402
from ray._common.usage import usage_lib  # noqa: E402

print(json.dumps(dict(gradio=gradio.analytics.analytics_enabled(), ray=usage_lib.usage_stats_enabled(),
                      hub=not huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY)))
