"""No config makes a command print a warning that its user can do nothing about.

A model of each kind trains for two steps on digit scenes and validates. Some are also tested with
`--out`, and their attention is drawn.
"""

import contextlib
import io
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mmflatten.cli.main import main
from mmflatten.datasets.scenes.stereo_build import StereoSceneOptions, build_stereo_scenes

REPOSITORY = Path(__file__).parents[2]
CONFIGS = REPOSITORY / 'configs'
# A part of a line -> why it may appear.
ALLOWED = {
    'no object was detected, so there is no AP yet': (
        'a detector of two steps; the user sees how far it is'
    ),
    'the method `get_instance` should not accept': (
        'runs of one process within a second have one name; a user starts a process for each'
    ),
    'PyTorch finds no GPU': 'the user can install a driver or another PyTorch',
    'Found no valid file in the folder': 'four scenes lack some digits; the user can add images',
    'fcn_mask_head.py': (
        'mmdet 3.5 copies the mean of the masks of a cascade; no argument changes it'
    ),
}
# The same for lines of the log file that the terminal does not show.
ALLOWED_IN_FILE = {
    'The testing results of the whole dataset is empty': (
        'the first line above, in the words of mmdet'
    ),
    '"FileClient" will be deprecated': "MMEngine's own hooks use it",
    '"HardDiskBackend" is the alias of "LocalBackend"': "MMEngine's own hooks use it",
}
WARNING = re.compile(r'\b(WARNING|ERROR)\b|\b\w*Warning\b')
HIDDEN_BY_PYTHON = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)

SWIN = (
    "type='mmflatten.FLattenSwin', arch=dict(embed_dims=8, depths=(1, 1, 1, 1), num_heads=(1, 1,"
    ' 1, 1))'
)
SMALL_SWIN = (
    f"dict(_delete_=True, {SWIN}, attn_types='LLSS', img_size=160, softmax_window=5{{more}})"
)
FPN = 'in_channels=[8, 16, 32, 64], out_channels=16'
ROI_HEAD = """bbox_roi_extractor=dict(out_channels=16), mask_roi_extractor=dict(out_channels=16),
              mask_head=dict(in_channels=16, conv_out_channels=16, num_convs=1, num_classes=10)"""
PROPOSALS = 'nms_pre=50, max_per_img=20'
FEW_PROPOSALS = (
    f'train_cfg=dict(rpn_proposal=dict({PROPOSALS})), test_cfg=dict(rpn=dict({PROPOSALS}))'
)
RPN = 'rpn_head=dict(in_channels=16, feat_channels=16)'


class Kind(NamedTuple):
    """A kind of model: a digit config, or parts of `configs/_base_`, and the lines that make it
    small.
    """

    base: str | tuple[str, ...]
    lines: str = ''
    data: str = 'digits'
    more: tuple[str, ...] = ()  # further commands


DETECTION = (
    'models/{}.py',
    'datasets/digits_coco.py',
    'schedules/digits_6e.py',
    'default_runtime.py',
)
BOXES = (
    'models/{}.py',
    'datasets/digits_coco_det.py',
    'schedules/digits_6e.py',
    'default_runtime.py',
)
KINDS = {
    'classifier': Kind('flatten-swin-nano_digits', more=('test', 'attention')),
    'mask-rcnn': Kind('mask-rcnn_flatten-swin-nano_fpn_digits', more=('test', 'attention')),
    'cascade': Kind(
        tuple(part.format('cascade-mask-rcnn_fpn') for part in DETECTION),
        f"""
heads = [
    dict(head, in_channels=16, conv_out_channels=16, fc_out_channels=16, num_shared_convs=1,
         num_classes=10)
    for head in _base_.model.roi_head.bbox_head]
model = dict(backbone={SMALL_SWIN.format(more='')}, neck=dict({FPN}), {RPN},
             roi_head=dict({ROI_HEAD}, bbox_head=heads), {FEW_PROPOSALS})
""",
    ),
    'retinanet': Kind('retinanet_flatten-swin-nano_fpn_digits'),
    'atss': Kind('atss_flatten-swin-nano_fpn_digits', more=('test',)),
    'dino': Kind('dino-4scale_flatten-swin-nano_digits', more=('test',)),
    'encoder-mask': Kind('encoder-mask_flatten-swin-nano_digits', more=('test', 'attention')),
    'reppoints-v2': Kind(
        tuple(part.format('reppoints-v2_bifpn') for part in BOXES),
        f"""
norm_cfg = dict(type='GN', num_groups=4)
model = dict(
    backbone={SMALL_SWIN.format(more=', out_indices=(1, 2, 3)')},
    neck=dict(in_channels=[16, 32, 64], out_channels=16, num_layers=1, norm_cfg=norm_cfg),
    bbox_head=dict(num_classes=10, in_channels=16, feat_channels=16, point_feat_channels=16,
                   stacked_convs=1, norm_cfg=norm_cfg))
""",
    ),
    'frozen-vit': Kind(
        tuple(part.format('mask-rcnn_fpn') for part in DETECTION),
        f"""
arch = dict(embed_dims=32, depth=2, num_heads=2, img_size=64, registers=4, rotary=100.,
            layer_scale=1e-5, key_bias=False)
model = dict(
    backbone=dict(_delete_=True, type='mmflatten.ViT', arch=arch, out_type='featmap',
                  output_norm='shared', frozen_stages=2),
    neck=dict(_delete_=True, type='mmflatten.SimpleFeaturePyramid', in_channels=32,
              out_channels=16, num_outs=5),
    {RPN},
    roi_head=dict({ROI_HEAD}, bbox_head=dict(in_channels=16, fc_out_channels=16, num_classes=10)),
    {FEW_PROPOSALS})
optim_wrapper = dict(paramwise_cfg=dict(norm_decay_mult=0.))
""",
    ),
    'upernet': Kind('upernet_flatten-swin-nano_digits', more=('test', 'attention')),
    'semantic-fpn': Kind('semantic-fpn_flatten-swin-nano_digits'),
    'stereo': Kind(
        'psmnet-tiny-fa_digits-stereo',
        """
model = dict(max_disp=16, base_channels=4, depths=(1, 1, 1, 1), pool_sizes=(4, 2),
             attention=dict(basis_channels=4))
val_evaluator = dict(max_disp=16)
test_evaluator = val_evaluator
""",
        data='stereo',
        more=('test', 'attention'),
    ),
}
# In the full sweep: kinds whose parts others have, too.
ALIKE = ('cascade', 'retinanet', 'semantic-fpn')
CROPPED_PAIRS = [
    dict(type='mmflatten.LoadStereoPair'),
    dict(type='mmflatten.LoadDisparity'),
    dict(type='mmflatten.StereoRandomCrop', crop_size=(32, 48)),
    dict(type='mmflatten.PackStereoInputs'),
]


@pytest.fixture(scope='module')
def stereo_pairs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('pairs') / 'digits_stereo'
    build_stereo_scenes(root, StereoSceneOptions(train=4, val=2, size=32))
    return root


@pytest.fixture
def data(scenes, stereo_pairs) -> dict[str, Path]:
    return dict(digits=scenes, stereo=stereo_pairs)


def write_config(kind: Kind, root: Path, folder: Path) -> Path:
    """Write the config of a kind for two steps on the data in `root`, and a validation."""
    names = (
        [f'digits/{kind.base}.py']
        if isinstance(kind.base, str)
        else [f'_base_/{part}' for part in kind.base]
    )
    by_iterations = names[0].startswith(('digits/upernet', 'digits/semantic-fpn'))
    length = 'max_iters=2, val_interval=2' if by_iterations else 'max_epochs=1, val_interval=1'
    lines = [
        f'_base_ = {[str(CONFIGS / name) for name in names]}',
        f'train_cfg = dict({length})',
        f"work_dir = '{folder}/run'",
    ]
    loader = 'batch_size=2, num_workers=0, persistent_workers=False'
    dataset = f"data_root='{root}/'"
    lines += [
        f'{part}_dataloader = dict({loader}, dataset=dict({dataset}))' for part in ('val', 'test')
    ]
    cropped = f', pipeline={CROPPED_PAIRS}' if kind.data == 'stereo' else ''
    lines.append(f'train_dataloader = dict({loader}, dataset=dict({dataset}{cropped}))')
    if has_boxes(names):
        ann_file = f"dict(ann_file='{root}/annotations/instances_val.json')"
        lines += [f'{part}_evaluator = {ann_file}' for part in ('val', 'test')]
    config = folder / 'config.py'
    config.write_text('\n'.join(lines) + '\n' + kind.lines)
    return config


def has_boxes(names: list[str]) -> bool:
    """Return True if the metric of these parts reads a file of COCO's boxes."""
    if 'semantic' in names[0]:
        return False
    marks = ('coco', 'fpn_digits', 'dino', 'encoder-mask')
    return any(mark in name for name in names for mark in marks)


def commands(kind: Kind, config: Path, root: Path) -> Iterator[list[str]]:
    """Yield the command lines of a kind, each after the one before it has ended."""
    yield ['train', str(config)]
    checkpoint = (config.parent / 'run' / 'last_checkpoint').read_text()
    if 'test' in kind.more:
        yield ['test', str(config), checkpoint, '--out', str(config.parent / 'results.pkl')]
    if 'attention' in kind.more:
        images = sorted(root.rglob('TEST/**/*.png' if kind.data == 'stereo' else 'images/**/*.*'))
        images = [image for image in images if image.parent.name == 'left'][:1] + [
            image for image in images if image.parent.name == 'right'
        ][:1] or images[:1]
        yield [
            'attention',
            str(config),
            checkpoint,
            *map(str, images),
            '--layer',
            '0',
            '--queries',
            '4',
            '--out',
            str(config.parent / 'attention'),
        ]


def noise_of(printed: str, folder: Path) -> list[str]:
    """Return the lines of the output and of the log files that warn of something that is not
    allowed.
    """
    logged = ''.join(log.read_text(encoding='utf-8') for log in folder.rglob('*.log'))
    return [*_warnings(printed, ALLOWED), *_warnings(logged, ALLOWED | ALLOWED_IN_FILE)]


def _warnings(text: str, allowed: Iterable[str]) -> list[str]:
    lines = dict.fromkeys(line for line in text.splitlines() if WARNING.search(line))
    for part in allowed:
        lines = [line for line in lines if part not in line]
    return list(lines)


def run_here(argv: Iterable[str]) -> str:
    """Run a command in this process and return its output, with the warnings that Python shows by
    default.
    """
    printed = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as shown,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        warnings.resetwarnings()
        for category in HIDDEN_BY_PYTHON:
            warnings.simplefilter('ignore', category)
        assert main(list(argv)) == 0, printed.getvalue()
    return printed.getvalue() + '\n'.join(
        f'{warning.filename}:{warning.lineno}: {warning.category.__name__}: {warning.message}'
        for warning in shown
    )


def run_as_user(argv: Iterable[str]) -> str:
    """Run a command in a process of its own, with the warnings of imports, and return its
    output.
    """
    ended = subprocess.run(
        [sys.executable, '-m', 'mmflatten', *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=REPOSITORY,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.parametrize(
    'name',
    [pytest.param(name, marks=[pytest.mark.full] if name in ALIKE else []) for name in KINDS],
)
@pytest.mark.parametrize('run', [run_here, pytest.param(run_as_user, marks=pytest.mark.full)])
def test_no_config_makes_noise(run, name, data, tmp_path):
    kind = KINDS[name]
    config = write_config(kind, data[kind.data], tmp_path)
    printed = ''.join(run(argv) for argv in commands(kind, config, data[kind.data]))
    noise = noise_of(printed, tmp_path)
    assert not noise, '\n'.join(noise)


def test_noise_is_found(tmp_path):
    log = tmp_path / 'run.log'
    log.write_text(
        '2026/01/01 - mmengine - WARNING - a line\n2026/01/01 - mmengine - INFO - another\n'
    )
    assert len(noise_of('UserWarning: a text\nno news\n', tmp_path)) == 2
