"""Study files: their runs, and the errors found before the first run starts."""

import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
import yaml
from mmengine import Config

from mmflatten.measure.flops.model_cost import image_shape
from mmflatten_lab.commands import study as command
from mmflatten_lab.studies import execution
from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.costs import check_runs
from mmflatten_lab.studies.fingerprint import SUITE
from mmflatten_lab.studies.level_differences import inspect_level
from mmflatten_lab.studies.runs import expand
from mmflatten_lab.studies.study import Override
from mmflatten_lab.studies.study_fields import StudyError
from mmflatten_lab.studies.study_file import read_study

LAB = Path(__file__).parents[2]
FILES = {path.stem: path for path in sorted([*LAB.glob('studies/*.yaml'), SUITE])}
LINEAR = 'model.backbone.mixers'
TWO = dict(a={}, b={'model.backbone.drop_path_rate': 0.0})


def test_expand_makes_every_combination_with_a_stable_name(study_file):
    factors = dict(attention=TWO, **{'model.backbone.softmax_window': [2, 4]}, seed=[3, 5])
    exclude = [
        {'attention': 'b', 'model.backbone.softmax_window': [4]},
        {'attention': 'b', 'seed': 5},
    ]
    runs = expand(read_study(study_file(factors=factors, exclude=exclude)))
    assert [
        (run.levels['attention'], run.levels['model.backbone.softmax_window'], run.seed)
        for run in runs
    ] == [('a', '2', 3), ('a', '4', 3), ('b', '2', 3), ('a', '2', 5), ('a', '4', 5)]
    assert runs[1].name.startswith('a_softmax-window4_s3_')
    again = expand(read_study(study_file(factors={**factors, 'seed': [5, 3, 9]}, exclude=exclude)))
    assert {run.name for run in runs} < {run.name for run in again}


def test_a_part_of_a_study_keeps_the_exclusions_of_its_levels(study_file):
    levels = {'softmax': {}, 'relu': {}, 'mala': {}}
    exclude = [
        {'attention': ['relu', 'mala'], 'seed': [2, 3]},
        {'attention': 'mala', 'seed': 1},
    ]
    path = study_file(factors={'attention': levels, 'seed': 4}, exclude=exclude)
    softmax = read_study(path, fields={'factors.attention': 'softmax'})
    assert softmax.exclude == []
    fields = {'factors.attention': ['softmax', 'relu'], 'factors.seed': [0, 3]}
    part = read_study(path, fields=fields)
    assert part.exclude == [{'attention': ['relu'], 'seed': ['3']}]
    assert {(run.levels['attention'], run.seed) for run in expand(part)} == {
        ('softmax', 0),
        ('softmax', 3),
        ('relu', 0),
    }
    wrong = study_file(factors={'attention': levels}, exclude=[{'attention': 'realu'}])
    with pytest.raises(StudyError, match='exclude: attention: expected one of softmax, got realu'):
        read_study(wrong, fields={'factors.attention': 'softmax'})


def test_config_of_a_run_has_its_options_seed_and_budget(study_file):
    study = read_study(study_file(options={'optim_wrapper.optimizer.lr': 1e-4}))
    run = expand(study)[3]
    cfg = config_of(run, study.budget)
    assert run.levels == dict(attention='vanilla') and cfg.randomness.seed == 1
    assert cfg.model.backbone.mixers == dict(L=dict(type='LinearAttention', feature_map='relu'))
    assert cfg.train_cfg.max_epochs == 2 and cfg.param_scheduler[0].T_max == 2
    assert cfg.optim_wrapper.optimizer.lr == 1e-4


def test_overrides_set_fields_of_some_cells_after_their_levels(study_file):
    rate, decay = 'optim_wrapper.optimizer.lr', 'optim_wrapper.optimizer.weight_decay'
    path = study_file(
        factors=dict(a={'x': {rate: 1e-3}, 'y': {rate: 2e-3}}, b=TWO),
        overrides=[
            dict(where=dict(a='x', b=['b']), options={rate: 4e-3, decay: 0.0}),
            dict(where=dict(a='y', b='a'), options={rate: 8e-3}),
            dict(where=dict(a=['x', 'y'], b='b'), options={decay: 0.2}),
        ],
    )
    study = read_study(path)
    assert [(run.options[rate], run.options.get(decay)) for run in expand(study)] == [
        (1e-3, None),
        (4e-3, 0.2),
        (8e-3, None),
        (2e-3, 0.2),
    ]
    whole = study.model_copy(
        update={
            'overrides': [
                *study.overrides,
                Override(
                    where={'a': ['y'], 'b': ['b']},
                    options={'optim_wrapper.optimizer': dict(type='SGD', lr=1.0)},
                ),
            ]
        }
    )
    assert rate not in expand(whole)[3].options  # a field replaces those inside it
    assert config_of(expand(whole)[3], study.budget).optim_wrapper.optimizer.lr == 1.0
    plain = expand(study.model_copy(update={'overrides': []}))
    assert [run.name for run in plain] == [run.name for run in expand(study)]
    assert [
        run.options[rate]
        for run in expand(read_study(path, fields={'factors.b': ['b'], 'overrides': []}))
    ] == [1e-3, 2e-3]


def test_overrides_of_seeds_stay_when_fewer_seeds_run(study_file):
    rate = 'optim_wrapper.optimizer.lr'
    overrides = [dict(where=dict(seed=seed), options={rate: 0.1 * seed}) for seed in (1, 2)]
    path = study_file(factors=dict(a=TWO, seed=3), options={rate: 0.5}, overrides=overrides)
    for seeds in ([0, 1, 2], [0, 1]):
        runs = expand(read_study(path, fields={'factors.seed': seeds}))
        rates = {run.seed: run.options[rate] for run in runs}
        assert rates == {seed: 0.1 * seed or 0.5 for seed in seeds}
        assert [run.seed for run in runs] == sorted(2 * seeds)


def test_list_of_attentions_sets_linear_attention(study_file):
    study = read_study(study_file(factors=dict(attention=['SoftmaxAttention', 'HydraAttention'])))
    runs = expand(study)
    assert [run.levels['attention'] for run in runs] == ['SoftmaxAttention', 'HydraAttention']
    assert config_of(runs[1], study.budget).model.backbone.linear_attention == dict(
        type='HydraAttention'
    )


@pytest.mark.parametrize('first', [0, 1])
def test_nested_field_of_another_factor_is_kept_in_any_order(study_file, first):
    factors = [
        ('attention', dict(sharp={LINEAR: dict(L=dict(type='FocusedLinearAttention'))})),
        (f'{LINEAR}.L.focusing_factor', [2, 4]),
    ]
    study = read_study(study_file(factors=dict([factors[first], factors[1 - first]])))
    mixers = [config_of(run, study.budget).model.backbone.mixers.L for run in expand(study)]
    assert mixers == [
        dict(type='FocusedLinearAttention', focusing_factor=factor) for factor in (2, 4)
    ]


def test_nested_field_belongs_to_the_class_of_another_factor(study_file):
    optimizer = {'optim_wrapper.optimizer': dict(_delete_=True, type='AdamW', lr=0.1)}
    study = read_study(
        study_file(factors={'x': dict(adam=optimizer), 'optim_wrapper.optimizer.eps': [0.1, 0.2]})
    )
    assert [config_of(run, study.budget).optim_wrapper.optimizer.eps for run in expand(study)] == [
        0.1,
        0.2,
    ]
    wrong = read_study(
        study_file(factors={'x': dict(adam=optimizer), 'optim_wrapper.optimizer.momentum': [0.1]})
    )
    with pytest.raises(StudyError, match='momentum'):
        check_runs(wrong, expand(wrong))


@pytest.mark.parametrize('value, refused', [(2, False), (3, True)])
def test_two_factors_must_agree_on_a_field(study_file, value, refused):
    factors = {
        'x': dict(sharp={LINEAR: dict(L=dict(type='FocusedLinearAttention', focusing_factor=2))}),
        f'{LINEAR}.L.focusing_factor': [value],
    }
    study = read_study(study_file(factors=factors))
    if refused:
        with pytest.raises(StudyError, match=f'{LINEAR}.L.focusing_factor.*sharp'):
            expand(study)
    else:
        assert len(expand(study)) == 1


def test_size_keeps_levels_and_changes_parts(study_file):
    path = study_file(
        sizes=dict(
            small=dict(
                factors=dict(attention=['vanilla'], seed=1),
                metrics=dict(other='lower'),
                budget=dict(epochs=1),
            )
        )
    )
    small = read_study(path, 'small')
    assert small.name == 'tiny-small' and small.metrics == dict(other='lower')
    assert small.budget.epochs == 1
    assert [run.levels['attention'] for run in expand(small)] == ['vanilla']
    assert {run.name for run in expand(small)} < {run.name for run in expand(read_study(path))}
    with pytest.raises(StudyError, match='name'):
        read_study(study_file(name='', sizes=dict(small={})), 'small')


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(factor={}), ['factor: ']),
        (dict(budget=dict(epochs=0)), ['budget.epochs', '0']),
        (dict(budget=dict(epoch=3)), ['budget.epoch: ', '3']),
        (dict(budget={}), ['budget']),
        (dict(metrics=[]), ['metrics']),
        (dict(factors=dict(seed=0)), ['seed', '0']),
        (dict(factors=dict(seed=[1, 1])), ['seed', '1']),
        (dict(factors={'model.backbone.softmax_window': [4, 4]}), ['softmax_window', '4']),
        (dict(factors=dict(variant=['focused'])), ['variant']),
        (dict(factors=dict(a=TWO), exclude=[dict(a='c')]), ['exclude', 'c']),
        (dict(factors={1: TWO}, exclude=[{2: 'a'}]), ['exclude', '2', '1']),
        (
            dict(factors=dict(a=TWO), overrides=[dict(where=dict(a='c'), options={})]),
            ['overrides: a', 'c'],
        ),
        (
            dict(factors=dict(a=TWO), overrides=[dict(where=dict(b='a', seed=0), options={})]),
            ['overrides', 'expected one of a, got b'],
        ),
        (dict(factors=dict(a=TWO), overrides=[dict(where=dict(a='b'))]), ['overrides[0].options']),
        (dict(factors=dict(a=TWO), claims=[dict(order='a > c')]), ['claims', 'a > c']),
        (
            dict(factors=dict(a=TWO), claims=[dict(order='a > b', where=dict(a='a'))]),
            ['claims', 'a > b'],
        ),
        (
            dict(factors=dict(a=TWO), claims=[dict(order='a > b', factor=['a'])]),
            ['claims[0].factor', 'a'],
        ),
        (dict(factors=dict(a=TWO), claims=[dict(order='a > a')]), ['claims[0].order', 'a']),
        (dict(factors=dict(a=TWO), claims=[dict(order=5)]), ['claims[0].order', '5']),
        (dict(seeds=[1]), ['seeds']),
        (dict(factors=dict(seed=[0, -1])), ['factors.seed[1]', '-1']),
        (dict(factors=dict(x=dict(a=5))), ['factors.x.a', '5']),
        (dict(factors=dict(x={})), ['factors.x', '{}']),
        (dict(sizes=[1]), ['sizes', '[1]']),
        (dict(options=5), ['options', '5']),
        (dict(description=5), ['description', '5']),
        (dict(budget=dict(epochs=0, iterations=-1)), ['budget.epochs', 'budget.iterations', '-1']),
        (dict(budget=dict(epochs=True)), ['budget.epochs', 'True']),
        (dict(budget=dict(epochs=1.5)), ['budget.epochs', '1.5']),
        (dict(budget=dict(iterations=float('inf'))), ['budget.iterations', 'inf']),
        (dict(metrics=[['a']]), ['metrics', 'a']),
        (dict(metrics=dict(a=['b'])), ['metrics', 'b']),
        (dict(metrics=['a', 'a']), ['metrics', 'a']),
        (dict(claims=5), ['claims', '5']),
        (dict(exclude=5), ['exclude', '5']),
        (dict(factors=dict(seed=True)), ['seed', 'True']),
        (dict(base=5), ['base', '5']),
        (dict(name='../../x'), ['name', '../../x']),
        (dict(name=''), ['name']),
    ],
)
def test_read_study_names_the_field_and_the_value_of_an_error(study_file, changes, words):
    with pytest.raises(StudyError) as raised:
        read_study(study_file(**changes))
    assert all(word in str(raised.value) for word in words)


ALIASES = 'a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n' + ''.join(
    f'a{n}: &a{n} [{", ".join([f"*a{n - 1}"] * 10)}]\n' for n in range(1, 10)
)


UNBOUNDED = [
    ALIASES,
    '[' * 20_000,
    'a: &a [*a]',
    'a: ' + '9' * 10_000,
    'x' * 2**21,
    *(
        f'metrics: [m]\nbudget: {{epochs: 1}}\n{more}'
        for more in (
            'factors: {seed: 1000000000}',
            'factors: {seed: [4294967296]}',
            f'factors: {{seed: {list(range(200_000))}}}',
            f'metrics: {["m"] * 2000}',
            f'exclude: {[dict(seed=0)] * 2000}',
            'name: "a\\nb"',
            f'name: {"n" * 300}',
            f'factors: {{attention: {[f"A{number}" for number in range(20_000)]}}}',
            f'factors: {{attention: [{"A" * 300}]}}',
            f'factors: {{{", ".join(f"f{n}: {{a: {{}}, b: {{}}}}" for n in range(40))}}}',
        )
    ),
]


@pytest.mark.parametrize('text', UNBOUNDED, ids=range(len(UNBOUNDED)))
def test_file_without_bounds_is_refused_in_a_line(tmp_path, text):
    (tmp_path / 'huge.yaml').write_text(text)
    with pytest.raises(StudyError) as stop:
        expand(read_study(tmp_path / 'huge.yaml'))
    assert len(str(stop.value)) < 2000


@pytest.mark.parametrize(
    'changes, words',
    [
        (dict(options={'model.backbone.soft_window': 4}), ['soft_window']),
        (
            dict(options={'train_dataloader.batchsize': 4}),
            ['train_dataloader.batchsize', 'batch_size'],
        ),
        (dict(factors=dict(size=dict(odd={'model.head.in_channels': 7}, even={}))), ['odd']),
        (
            dict(factors=dict(x=TWO, y={'c': {'model.backbone.drop_path_rate': 0.5}})),
            ['model.backbone.drop_path_rate'],
        ),
        (
            dict(factors=dict(x=dict(none={LINEAR: dict(L=dict(type='Nothing'))}))),
            ['none', 'Nothing'],
        ),
        (dict(options={'test_evaluator.type': 'NoMetric'}), ['test_evaluator', 'NoMetric']),
        (
            dict(options={'test_evaluator': dict(type='Accuracy', topkk=1)}),
            ['test_evaluator', 'topkk'],
        ),
        (
            dict(options={'test_evaluator': [dict(type='Accuracy'), dict(type='NoMetric')]}),
            ['test_evaluator', 'NoMetric'],
        ),
        (dict(options={'val_dataloader.dataset.type': 'NoData'}), ['val_dataloader', 'NoData']),
        (
            dict(
                options={
                    'val_dataloader.dataset': dict(
                        _delete_=True, type='RepeatDataset', times=1, dataset=dict(type='NoData')
                    )
                }
            ),
            ['val_dataloader', 'NoData'],
        ),
        (dict(base='configs/nothing.py'), ['configs/nothing.py']),
        (dict(base=None), ['base']),
        (dict(budget=dict(iterations=3)), ['budget.epochs']),
        (dict(exclude=[dict(attention=['focused', 'vanilla'])]), ['exclude']),
    ],
)
def test_check_runs_names_what_cannot_be_built(study_file, changes, words):
    with pytest.raises(StudyError) as raised:
        study = read_study(study_file(**changes))
        check_runs(study, expand(study))
    assert all(word in str(raised.value) for word in words)


def test_read_study_names_the_line_of_a_repeated_level(study_file):
    path = study_file()
    path.write_text(path.read_text().replace('vanilla:', 'focused:'))
    lines = [
        number for number, line in enumerate(path.read_text().splitlines(), 1) if 'focused:' in line
    ]
    with pytest.raises(StudyError, match=f'yaml:{lines[1]}: .*focused'):
        read_study(path)


def test_read_study_names_a_file_that_is_not_utf8(tmp_path):
    path = tmp_path / 'study.yaml'
    path.write_text('name: é', encoding='latin-1')
    with pytest.raises(StudyError, match=str(path)):
        read_study(path)


def test_dry_run_prints_the_grid_with_its_costs(study_file, tmp_path, capsys):
    assert command.main([str(study_file()), '--dry-run', '--work-dir', str(tmp_path / 'out')]) == 0
    table = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in table if line.startswith('recipe')]
    assert [row[:3] for row in rows] == [['recipe', 'focused', '2'], ['recipe', 'vanilla', '2']]
    # 2 epochs of 4 iterations; parameters
    assert rows[0][6] == '8' and float(rows[0][3]) > float(rows[1][3]) > 0
    assert '4 runs' in '\n'.join(table) and not (tmp_path / 'out').exists()
    assert (
        'dwc (none in the reference)' not in table[-1]
        and 'local term (none, dwc in the reference)' in table[-1]
    )


@pytest.fixture
def plain(tmp_path):
    """A study of DeiT with 64 images in memory, 8 per step, a warm-up of 4 of 40 iterations."""

    def write(**changes):
        (tmp_path / 'plain.py').write_text(
            dedent("""
            custom_imports = dict(imports=['mmflatten_lab.datasets'])
            default_scope = 'mmpretrain'
            model = dict(
                type='ImageClassifier',
                head=dict(type='LinearClsHead', num_classes=10, in_channels=16, topk=(1,)),
                backbone=dict(
                    type='mmflatten.FLattenDeiT', img_size=28, patch_size=7, attn_types='L',
                    arch=dict(embed_dims=16, depth=1, num_heads=2),
                    with_cls_token=False, out_type='avg_featmap',
                    linear_attention=dict(
                        type='WithLocalTermAndGate', mixer=dict(type='SoftmaxAttention'))))
            custom_imports = dict(imports=['mmflatten_lab.models'])
            data_preprocessor = dict(num_classes=10, mean=[0.] * 3, std=[255.] * 3)
            train_dataloader = dict(
                batch_size=8, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=True),
                dataset=dict(
                    type='mmflatten.FashionTensors', split='train', folder='{folder}', indices=64))
            val_dataloader = dict(
                train_dataloader, sampler=dict(type='DefaultSampler', shuffle=False))
            test_dataloader = val_dataloader
            val_evaluator = dict(type='Accuracy', topk=(1,))
            test_evaluator = val_evaluator
            optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.1))
            param_scheduler = [
                dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=4)]
            train_cfg = dict(by_epoch=True, max_epochs=5)
            val_cfg = test_cfg = dict()
            """).format(folder=LAB / 'tests/fashion-mnist')
        )
        content = dict(
            name='plain',
            base=str(tmp_path / 'plain.py'),
            budget=dict(epochs=10),
            metrics=['accuracy/top1'],
            controls='a test of the tool',
            factors=dict(attention=dict(softmax={}, other={})),
        )
        (tmp_path / 'plain.yaml').write_text(
            yaml.safe_dump({**content, **changes}, sort_keys=False)
        )
        return tmp_path / 'plain.yaml'

    return write


def test_warm_up_keeps_its_share_of_the_steps(plain):
    few = {'train_dataloader.dataset.indices': 16}
    study = read_study(
        plain(
            factors=dict(attention=dict(all={}, few=few, small={'train_dataloader.batch_size': 16}))
        )
    )
    runs = expand(study)
    check_runs(study, runs)
    assert [(run.iterations, run.warmup, run.peak_rate) for run in runs] == [
        (number, pytest.approx(0.1, abs=0.05), pytest.approx(0.1)) for number in (80, 20, 40)
    ]


def test_runs_of_different_schedules_have_their_own_warm_up(plain):
    longer = {'param_scheduler.0.end': 8}
    study = read_study(plain(factors=dict(schedule=dict(short={}, long=longer))))
    runs = expand(study)
    check_runs(study, runs)
    short, long = (run.warmup for run in runs)
    assert long == pytest.approx(2 * short, rel=0.2)


def test_hash_of_a_config_does_not_depend_on_the_order_of_the_runs(plain):
    levels = {
        name: {'model.backbone.linear_attention': dict(_delete_=True, type=f'{name}Attention')}
        for name in ('Softmax', 'Linear')
    }
    hashes = []
    for names in (levels, reversed(levels)):
        study = read_study(plain(factors=dict(attention={name: levels[name] for name in names})))
        runs = expand(study)
        check_runs(study, runs)
        hashes.append({run.name: run.config_hash for run in runs})
    assert hashes[0] == hashes[1]


def test_positions_inside_an_attention_are_told_from_its_local_term(plain):
    wrapped = dict(mixer=dict(type='SoftmaxAttention'), local_kernel=5, gate='silu')
    options = dict(
        WithLocalTermAndGate=wrapped,
        FocusedLinearAttention=dict(kernel_size=None),
        InLineAttention={},
        CrossCovarianceAttention={},
        AgentAttention=dict(num_agents=4),
        CosFormerAttention={},
        RankAugmentedLinearAttention={},
        PolarityAwareLinearAttention={},
    )
    levels = {
        name: {'model.backbone.linear_attention': dict(_delete_=True, type=name, **more)}
        for name, more in options.items()
    }
    study = read_study(plain(factors=dict(attention=levels)))
    found = [inspect_level(config_of(run, study.budget)).places for run in expand(study)]
    assert found == ['no'] * 4 + ['yes'] * 4


@pytest.mark.parametrize(
    'option, words',
    [
        ('model.backbone.with_positions', ['order of the patches (no, yes in the reference)']),
        ('model.backbone.linear_attention.gate', ['gate (silu, none in the reference)']),
        (
            'model.backbone.linear_attention.local_kernel',
            ['local term (lepe, none in the reference)', 'parameters (+'],
        ),
        ('model.backbone.qkv_bias', []),
    ],
)
def test_dry_run_names_other_differences(plain, capsys, option, words):
    value = dict(with_positions=False, gate='silu', local_kernel=5, qkv_bias=False)[
        option.rpartition('.')[2]
    ]
    path = plain(factors=dict(attention=dict(softmax={}, other={option: value}), seed=2), std=0.5)
    assert command.main([str(path), '--dry-run']) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in words) and ('other differences' in out) == bool(words)
    assert 'detectable difference' in out and 'with 2 seeds' in out and ' 9% ' in out


def test_a_metric_that_the_test_lacks_is_refused_before_the_first_run(plain, tmp_path, capsys):
    path = plain(metrics=['accuracy/top5'])
    for words in (['--dry-run'], []):
        assert command.main([str(path), '--work-dir', str(tmp_path / 'out'), *words]) == 1
        assert (
            'metrics: expected one of accuracy/top1, got accuracy/top5' in capsys.readouterr().err
        )
    assert not (tmp_path / 'out' / 'runs').exists()


def test_fields_and_levels_of_the_command_line(plain):
    path = plain(factors=dict(attention=dict(softmax={}, other={}, third={}), seed=3))
    study = read_study(
        path,
        fields={
            'budget.epochs': 2,
            'options.train_dataloader.batch_size': 4,
            'interim': [1, 2],
            'factors.attention': ['softmax', 'third'],
            'factors.seed': [0, 2],
            'claims': [{'order': 'third > softmax'}],
        },
    )
    assert [claim.text for claim in study.claims] == ['third > softmax'] and study.interim == [1, 2]
    assert list(study.factors['attention']) == ['softmax', 'third'] and study.seeds == [0, 2]
    assert study.budget.epochs == 2 and study.options == {'train_dataloader.batch_size': 4}
    assert list(read_study(path, fields={'factors.attention': 'third'}).factors['attention']) == [
        'third'
    ]
    for wrong in ({'factors.attention': ['fourth']}, {'factors.colour': ['red']}):
        with pytest.raises(StudyError, match=str(next(iter(wrong.values()))[0]) + '|colour'):
            read_study(path, fields=wrong)


SMALL = [
    (name, 'smoke')
    for name, path in FILES.items()
    if 'smoke' in yaml.safe_load(path.read_text()).get('sizes', {})
]
FULL = [pytest.param(name, 'full', marks=pytest.mark.full) for name in FILES]


@pytest.mark.parametrize('name, size', [*SMALL, *FULL])
def test_studies_of_the_repository_can_be_built(name, size):
    study = read_study(FILES[name], size)
    runs = expand(study)
    check_runs(study, runs)
    assert all(run.params and run.flops and run.batch_size for run in runs)


def test_git_commit_is_that_of_the_package(monkeypatch, tmp_path):
    def git(*arguments: str) -> str:
        return subprocess.run(
            ['git', '-c', 'user.name=x', '-c', 'user.email=x', *arguments],
            cwd=tmp_path,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    package = tmp_path / 'environment' / 'mmflatten'
    (package / 'studies').mkdir(parents=True)
    (package / '__init__.py').touch()
    monkeypatch.setattr(execution, '__file__', str(package / 'studies' / 'execution.py'))
    git('init')
    git('commit', '--allow-empty', '-m', 'a checkout with an installed package in it')
    assert execution.git_commit() == ''
    git('add', '.')
    git('commit', '-m', 'the package itself')
    assert execution.git_commit() == git('rev-parse', 'HEAD')
    (package / '__init__.py').write_text('changed')
    assert execution.git_commit() == git('rev-parse', 'HEAD') + '-dirty'
    monkeypatch.setenv('PATH', str(tmp_path))
    assert execution.git_commit() == ''


@pytest.mark.parametrize(
    'model, shape',
    [
        (dict(data_preprocessor=dict(size=(160, 96)), backbone=dict(img_size=224)), (160, 96)),
        (dict(data_preprocessor=dict(mean=[0.0]), backbone=dict(img_size=28)), (28, 28)),
        (dict(backbone=dict(depth=18)), (512, 2048)),
    ],
)
def test_image_shape_is_that_of_the_training(model, shape):
    assert image_shape(Config(dict(default_scope='mmseg', model=model))) == shape
