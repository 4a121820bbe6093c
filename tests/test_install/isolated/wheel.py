"""Use an installed mmflatten in an empty folder, and write what it returns and prints to results.json."""
import contextlib
import io
import json

import mmflatten
from mmflatten.apis import get_model, list_models
from mmflatten.cli.main import main

NAME, OTHER = 'flatten-swin-nano_digits', 'l2vit-nano_digits'
IMAGES, ANNOTATIONS = 'data/digits/images', 'data/digits/annotations'


def run(*arguments: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert main(arguments) == 0, arguments
    return output.getvalue()


results = dict(file=mmflatten.__file__, models=list_models('*nano_digits', task='classification'),
               kind=type(get_model(NAME, **{'backbone.drop_path_rate': 0.})).__name__,
               flops=run('flops', NAME, f'configs/digits/{OTHER}.py'))
run('data', 'digits', '--train', '4', '--val', '2', '--size', '96')
run('train', NAME, '--cfg-options', 'train_cfg.max_epochs=1', *(
    f'{split}_dataloader.{option}' for split in ('train', 'val')
    for option in ('num_workers=0', 'persistent_workers=False')))
with open(f'work_dirs/{NAME}/last_checkpoint') as file:
    run('predict', NAME, file.read(), 'data/digits/crops/val/*/*.png', '--out', 'found')
run('init', '--task', 'det', '--base', 'retinanet_flatten-swin-nano_fpn_digits', '--out', 'mine.py',
    '--images', f'{IMAGES}/training', f'{IMAGES}/validation',
    '--ann', f'{ANNOTATIONS}/instances_train.json', f'{ANNOTATIONS}/instances_val.json')
with open('results.json', 'w') as file:
    json.dump(results, file)
