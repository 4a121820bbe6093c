"""`mmflatten linearize` on a small model: steps, interruption, choice of blocks, errors."""

import contextlib
import csv
import itertools
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
import timm
import torch
from mmengine.logging import MessageHub, MMLogger
from mmengine.visualization import Visualizer

from mmflatten.checkpoints.loading import read_checkpoint
from mmflatten.cli import convert
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.results.curves import read_scalars
from mmflatten_lab.commands import linearize
from mmflatten_lab.datasets.synthetic_tasks import SyntheticTasks
from mmflatten_lab.linearize import choice, steps
from mmflatten_lab.linearize.choice import Costs, ParetoPoint, best_within_budget, pareto_set
from mmflatten_lab.linearize.models import Distillation

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope='module')
def teacher(tmp_path_factory) -> tuple[str, str]:
    """Config and checkpoint of four softmax blocks with random weights, and 48 generated images to
    learn from.
    """
    folder = tmp_path_factory.mktemp('teacher')
    config, checkpoint = folder / 'teacher.py', folder / 'teacher.pth'
    config.write_text(f"""_base_ = ['{ROOT}/lab/mmflatten_lab/synthetic_tasks/base.py']
model = dict(
    backbone=dict(img_size=32, arch=dict(embed_dims=16, depth=4, num_heads=2)),
    head=dict(in_channels=16))
train_dataloader = dict(batch_size=8, dataset=dict(task='match', size=4, number=48))
test_dataloader = dict(dataset=dict(task='match', size=4, number=20))
val_dataloader = dict(
    num_workers=0, collate_fn=dict(type='default_collate'), batch_size=100,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type='mmflatten.SyntheticTasks', task='match', size=4, number=20, split='val'))
val_evaluator = dict(type='mmflatten.CellAccuracy')
val_cfg = dict(type='ValLoop')
default_hooks = dict(logger=dict(interval=1))
randomness = dict(seed=1)
""")
    torch.manual_seed(0)
    model = build_model(load_config(str(config)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(std=0.05 if 'ffn' in name else 0.4)
    torch.save(
        dict(state_dict=model.state_dict(), meta=dict(dataset_meta=dict(classes=('no', 'yes')))),
        checkpoint,
    )
    return str(config), str(checkpoint)


def run(teacher: tuple[str, str], out: Path, *words: str) -> int:
    for kind in (MMLogger, MessageHub, Visualizer):  # as in a new process
        kind._instance_dict.clear()
    return linearize.main(
        [
            *teacher,
            '--attention',
            'EnhancedLinearAttention:feature_map=elu',
            '--out',
            str(out),
            '--epochs',
            '2',
            *words,
        ]
    )


def scores(config: str, checkpoint: Path) -> torch.Tensor:
    model = build_model(load_config(config)).eval()
    model.load_state_dict(torch.load(checkpoint)['state_dict'])
    with torch.no_grad():
        images = torch.stack([sample['inputs'] for sample in SyntheticTasks('match', 8, 4, 'val')])
        return model(images / 64, mode='tensor')


def test_swapped_blocks_come_closer_to_the_teacher_and_the_result_is_a_config(
    teacher, tmp_path, capsys
):
    out = tmp_path / 'out'
    assert run(teacher, out, '--blocks', '1,3') == 0
    assert capsys.readouterr().out.split()[-2:] == [
        str(out / 'linearized.py'),
        str(out / 'linearized.pth'),
    ]
    aligned, distilled = read_scalars(out / 'align'), read_scalars(out / 'distil')
    assert {key for key in aligned[0] if key.startswith('loss_')} == {
        'loss_blocks.1',
        'loss_blocks.3',
    }
    assert all(
        aligned[-1][key] < 0.9 * aligned[0][key] for key in ('loss_blocks.1', 'loss_blocks.3')
    )
    assert [
        len([record for record in run if 'loss' in record]) for run in (aligned, distilled)
    ] == [12, 12]
    seeds = [
        torch.load(next((out / step).glob('iter_*.pth')), weights_only=False)['meta']['seed']
        for step in ('align', 'distil')
    ]
    assert seeds == [1, 10_001]  # short steps see different images
    backbone = load_config(str(out / 'linearized.py')).model.backbone
    assert backbone.attn_types == 'LALA' and backbone.mixers.A.feature_map == 'elu'
    assert torch.load(out / 'linearized.pth')['meta'] == dict(
        dataset_meta=dict(classes=('no', 'yes'))
    )
    expected = scores(teacher[0], Path(teacher[1]))
    errors = [
        (scores(str(out / 'linearized.py'), out / f'{name}.pth') - expected).norm()
        for name in ('swap', 'align', 'linearized')
    ]
    assert errors[0] > errors[1] > errors[2] > 0

    before = (out / 'linearized.pth').stat().st_mtime_ns, (out / 'distil.pth').stat().st_mtime_ns
    assert run(teacher, out, '--blocks', '1,3') == 0  # nothing is left to do
    assert (out / 'distil.pth').stat().st_mtime_ns == before[1]
    assert run(teacher, out, '--blocks', '1') == 1
    assert f'--out: {out} has results with blocks [1, 3], got [1]' in capsys.readouterr().err


def test_interrupted_steps_end_as_uninterrupted_ones(teacher, tmp_path, monkeypatch, capsys):
    assert run(teacher, tmp_path / 'straight') == 0
    loss, steps = Distillation.loss, itertools.count()

    def interrupted(*args) -> dict:
        if next(steps) == 7:
            raise KeyboardInterrupt
        return loss(*args)

    monkeypatch.setattr(Distillation, 'loss', interrupted)
    assert run(teacher, tmp_path / 'resumed') == 130
    assert 'Continue with: mmflatten linearize' in capsys.readouterr().err
    monkeypatch.undo()
    assert run(teacher, tmp_path / 'resumed') == 0
    one, other = (
        torch.load(tmp_path / name / 'linearized.pth')['state_dict']
        for name in ('straight', 'resumed')
    )
    assert all(value.equal(other[name]) for name, value in one.items())


def test_choice_fits_the_budget_and_keeps_aligned_blocks(teacher, tmp_path, monkeypatch, capsys):
    out = tmp_path / 'out'
    monkeypatch.setattr(
        choice, 'block_times', lambda *_: ([2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 3.0], 10.0)
    )
    words = ['--blocks', 'auto', '--size', '32', '32', '--budget']
    assert run(teacher, tmp_path / 'none', *words, '0.6') == 1
    assert '--budget: expected at least 0.70' in capsys.readouterr().err
    assert not (tmp_path / 'none' / 'align').exists()
    assert run(teacher, out, *words, '0.85', '--steps', 'align') == 0
    with open(out / 'pareto.csv') as file:
        points = list(csv.DictReader(file))
    assert points[0] == dict(blocks='', loss='0.0', time='1.0')
    assert float(points[-1]['time']) == pytest.approx(0.7)
    letters = load_config(str(out / 'linearized.py')).model.backbone.attn_types
    assert letters.count('A') == 2 and letters[3] == 'L'
    result, aligned, old = (
        torch.load(path)['state_dict']
        for path in (out / 'linearized.pth', out / 'align.pth', teacher[1])
    )
    for number, letter in enumerate(letters):
        name = f'backbone.blocks.{number}.attn.fn.qkv.weight'
        assert result[name].equal((aligned if letter == 'A' else old)[name])


def test_front_has_no_choice_that_another_beats():
    random = torch.Generator().manual_seed(0)
    losses = torch.rand(8, generator=random).tolist()
    after = torch.rand(8, generator=random).tolist()
    costs = Costs(losses, [0.9] * 8, after, 8.0)
    choices = []
    for size in range(9):
        for blocks in itertools.combinations(range(8), size):
            loss = sum(losses[i] for i in blocks)
            choices.append(ParetoPoint(blocks, loss, costs.time(blocks)))
    points = pareto_set(costs)
    assert len(points) > 5
    for budget in (1.0, 0.9, 0.8, 0.7, 0.5):
        fitting = [item for item in choices if item.time <= budget]
        if not fitting:
            with pytest.raises(ValueError, match='--budget: expected at least'):
                best_within_budget(points, budget)
            continue
        assert best_within_budget(points, budget).loss == pytest.approx(
            min(item.loss for item in fitting)
        )


@pytest.mark.parametrize(
    'words, message',
    [
        (['--blocks', '9'], '--blocks: expected numbers from 0 to 3, got 9'),
        (['--attention', 'NeighborhoodAttention:kernel_size=4'], 'kernel_size'),
        (['--attention', 'UnknownAttention'], 'UnknownAttention: expected one of'),
        (['--images', '.'], '--images: expected a config whose test data have a pipeline'),
        (['--images', 'empty'], '--images: expected a folder with images'),
    ],
)
def test_bad_input_is_a_line(teacher, tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'empty').mkdir()
    cv2.imwrite('black.png', np.zeros((8, 8, 3), np.uint8))
    assert run(teacher, tmp_path / 'out', *words) == 1
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in line
    assert not (tmp_path / 'out' / 'swap.pth').exists()


def test_damaged_settings_are_named(teacher, tmp_path, capsys):
    (tmp_path / 'settings.json').write_text('{"config": ')
    assert run(teacher, tmp_path) == 1
    assert str(tmp_path / 'settings.json') in capsys.readouterr().err.splitlines()[-1]


def test_full_disk_has_a_cause(tmp_path, monkeypatch):
    monkeypatch.setattr(
        steps, 'atomic_write', lambda path: contextlib.nullcontext(Path('/dev/full'))
    )
    with pytest.raises(OSError, match='No space left'):
        steps.Linearization._save(
            SimpleNamespace(meta={}), tmp_path / 'swap.pth', dict(x=torch.zeros(9))
        )


@pytest.mark.parametrize(
    'words',
    [
        ['--blocks', 'auto'],
        ['--size', '8', '8', '--budget', '.5'],
        ['--blocks', 'a'],
        ['--budget', '2'],
        ['--epochs', '0'],
        ['--images', 'no/folder'],
    ],
)
def test_words_that_do_not_fit_are_refused(teacher, tmp_path, words):
    with pytest.raises(SystemExit):
        run(teacher, tmp_path / 'out', *words)


def test_checkpoint_of_another_model_is_refused(teacher, tmp_path, capsys):
    other = tmp_path / 'other.pth'
    torch.save(dict(state_dict={'head.fc.weight': torch.zeros(2, 3)}), other)
    assert run((teacher[0], str(other)), tmp_path / 'out') == 1
    assert 'does not fit the model of the config' in capsys.readouterr().err
    assert not (tmp_path / 'out').exists()


def test_backbone_of_a_detector_learns_from_images_without_labels(train_on, tmp_path, capsys):
    trained, out = train_on('retinanet_flatten-swin-nano_fpn_digits'), tmp_path / 'out'
    images = Path(
        load_config(str(trained.config)).train_dataloader.dataset.data_root, 'images', 'training'
    )
    config = tmp_path / 'frozen.py'  # as it was trained: from other weights, with frozen stages
    config.write_text(
        f"_base_ = ['{trained.config}']\nmodel = dict(backbone=dict(frozen_stages=1, init_cfg=dict("
        "type='Pretrained', checkpoint='missing.pth')))\nload_from = 'missing.pth'\nresume = True\n"
    )
    assert (
        linearize.main(
            [
                str(config),
                str(trained.checkpoint),
                '--attention',
                'EfficientAttention',
                '--blocks',
                '0',
                '--images',
                str(images),
                '--out',
                str(out),
            ]
        )
        == 0
    )
    assert 'loss_map_0' in read_scalars(out / 'distil')[0]
    swapped, aligned = (torch.load(out / f'{name}.pth')['state_dict'] for name in ('swap', 'align'))
    learned = {name for name, value in aligned.items() if not value.equal(swapped[name])}
    assert learned and all(name.startswith('backbone.stages.0.blocks.0.attn.') for name in learned)
    before, after = (
        read_checkpoint(str(path))['state_dict']
        for path in (trained.checkpoint, out / 'linearized.pth')
    )
    for name, value in after.items():
        if name in before and not name.startswith('backbone.'):
            torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    result = load_config(str(out / 'linearized.py'))
    assert result.model.backbone.mixers.A.type == 'EfficientAttention' and not {
        'load_from',
        'resume',
    } & {*result}


def test_plain_vit_without_head_learns_its_map_and_chooses_blocks_at_800_x_1280(
    tmp_path, monkeypatch
):
    """Also from a converted file of DINOv2, which has a token of masked patches, and in a frozen
    backbone.
    """
    monkeypatch.setattr(choice, 'SECONDS', 0.05)
    (tmp_path / 'images').mkdir()
    for number, image in enumerate(
        np.random.default_rng(0).integers(0, 256, (4, 64, 48, 3), np.uint8)
    ):
        cv2.imwrite(str(tmp_path / 'images' / f'{number}.png'), image)
    config, checkpoint, out = tmp_path / 'vit.py', tmp_path / 'vit.pth', tmp_path / 'out'
    config.write_text(
        f"""_base_ = ['{ROOT}/configs/vit/dinov2-s-frozen_linear-probe_8xb128_in1k.py']
model = dict(head=None, backbone=dict(
    arch=dict(_delete_=True, embed_dims=16, depth=2, num_heads=2, img_size=64, registers=2,
              layer_scale=1.),
    out_type='featmap', frozen_stages=2, init_cfg=None))
train_dataloader = dict(batch_size=2, num_workers=0, persistent_workers=False)
test_dataloader = dict(
    dataset=dict(pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')]))
val_dataloader = val_evaluator = val_cfg = None
default_hooks = dict(logger=dict(interval=1))
"""
    )
    torch.manual_seed(0)
    model = build_model(load_config(str(config)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(std=0.05 if 'ffn' in name else 0.4)
    torch.save({**model.state_dict(), 'backbone.embed.mask_token': torch.zeros(1, 16)}, checkpoint)
    assert (
        linearize.main(
            [
                str(config),
                str(checkpoint),
                '--attention',
                'EfficientAttention',
                '--images',
                str(tmp_path / 'images'),
                '--blocks',
                'auto',
                '--size',
                '800',
                '1280',
                '--budget',
                '0.99',
                '--epochs',
                '2',
                '--out',
                str(out),
            ]
        )
        == 0
    )
    assert 'A' in load_config(str(out / 'linearized.py')).model.backbone.attn_types
    swapped, aligned = (torch.load(out / f'{name}.pth')['state_dict'] for name in ('swap', 'align'))
    learned = {
        name.partition('.attn.')[0]
        for name, value in aligned.items()
        if not value.equal(swapped[name])
    }
    assert learned == {'backbone.blocks.0', 'backbone.blocks.1'}
    assert len([row for row in read_scalars(out / 'distil') if row.get('loss_map_0', 0) > 0]) == 4


@pytest.mark.parametrize(
    'name, family, config',
    [
        ('deit_tiny_patch16_224', 'deit', 'deit-t_8xb128_in1k'),
        pytest.param(
            'swin_tiny_patch4_window7_224',
            'timm_swin',
            'swin-t_8xb128_in1k',
            marks=pytest.mark.full,
        ),
    ],
)
def test_models_of_timm_can_teach(name, family, config, tmp_path):
    model = timm.create_model(name, pretrained=False)
    torch.save(model.state_dict(), tmp_path / 'timm.pth')
    (tmp_path / 'images').mkdir()
    for number in range(2):
        cv2.imwrite(
            str(tmp_path / 'images' / f'{number}.png'), np.full((40, 50, 3), 90 * number, np.uint8)
        )
    converted, out = tmp_path / 'teacher.pth', tmp_path / 'out'
    assert convert.main([str(tmp_path / 'timm.pth'), str(converted), '--family', family]) == 0
    assert (
        linearize.main(
            [
                config,
                str(converted),
                '--attention',
                'FocusedLinearAttention',
                '--blocks',
                '3',
                '--images',
                str(tmp_path / 'images'),
                '--steps',
                'align',
                '--out',
                str(out),
                '--cfg-options',
                'train_dataloader.batch_size=1',
                'train_dataloader.num_workers=0',
            ]
        )
        == 0
    )
    assert len(read_scalars(out / 'align')) == 1  # of two iterations, at the end
    image = torch.randn(1, 3, 224, 224)
    swapped = build_model(load_config(str(out / 'linearized.py'))).eval()
    swapped.load_state_dict(torch.load(out / 'linearized.pth')['state_dict'])
    with torch.no_grad():
        ours, theirs = swapped(image, mode='tensor'), model.eval()(image)
    assert 0 < (ours - theirs).norm() < 0.5 * theirs.norm()
