"""The model zoo: records, page, metafiles and the tool that writes them."""

import csv
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from zoo.metafiles import render_metafiles
from zoo.page import render_coverage, render_pages, render_task_page
from zoo.records import ZooEntry, attentions_of, count_rows, from_csv, to_csv, zoo_rows
from zoo.speed import CONFIGS, measured_speeds, render_speed

from mmflatten.measure.flops.meta import build_on_meta
from mmflatten.measure.flops.model_cost import read_model_config
from mmflatten.measure.papers.tables import PaperRow, paper_rows

ROOT = Path(__file__).parents[2]
SWIN_T = 'configs/flatten_swin/swin-t_8xb128_in1k.py'


@pytest.fixture(scope='module')
def rows() -> list[PaperRow]:
    return zoo_rows(ROOT)


@pytest.fixture(scope='module')
def committed() -> list[ZooEntry]:
    return from_csv((ROOT / 'docs' / 'model_zoo.csv').read_text(encoding='utf-8'))


def swin_t(**cells: str) -> PaperRow:
    known = dict(
        paper='flatten',
        table='8',
        task='classification',
        dataset='imagenet1k',
        method='-',
        backbone='swin-t',
        schedule='300e',
        flops_input_hw='224x224',
        params_m='29',
        flops_g='4.5',
        top1='81.3',
        config=SWIN_T,
    )
    return PaperRow.of(**{**known, **cells})


def counted(row: PaperRow, params: int = 28_288_354, flops: int = 4_512_000_000) -> ZooEntry:
    return ZooEntry(row, '224x224', params, flops - 20_000_000, flops, 'Softmax')


@pytest.fixture(scope='module')
def tool(load_tool) -> ModuleType:
    return load_tool('reproduce_tables')


@pytest.mark.parametrize(
    'cells, agrees',
    [
        (dict(params_m='28'), 'yes'),
        ({}, 'unit'),  # 28.29 of 29
        (dict(params_m='28', flops_g='4.43'), 'near'),  # 1.9 %
        (dict(params_m='30'), 'no'),
        (dict(params_m='28.20'), 'no'),  # 0.3 %
        (dict(params_m='28', flops_g='4.6'), 'unit'),  # rounded up
        (dict(flops_g='4.4'), 'no'),  # 2.5 %
        (dict(params_m=''), 'yes'),
        (dict(params_m='', flops_g=''), ''),
    ],
)
def test_entry_agrees_if_parameters_and_flops_do(cells, agrees):
    assert counted(swin_t(**cells)).agrees == agrees
    assert ZooEntry(swin_t(**cells)).agrees == '', 'nothing was counted'


def test_csv_round_trip_and_columns():
    missing = ZooEntry(PaperRow.of(paper='focal', table='11', cause='no head'))
    entries = [counted(swin_t(cause='one, with a comma')), missing]
    assert from_csv(to_csv(entries)) == entries
    first = next(csv.DictReader(StringIO(to_csv(entries))))
    assert list(first) == (ROOT / 'docs' / 'model_zoo.csv').read_text(
        encoding='utf-8'
    ).splitlines()[0].split(',')
    assert (first['params'], first['paper_params_m'], first['params_diff_percent']) == (
        '28288354',
        '29',
        '-2.45',
    )
    assert first['paper_top1'] == '81.3' and 'top1' not in first and first['agrees'] == 'unit'


def test_count_rows_counts_a_config_once_per_size_and_continues_after_errors(tmp_path):
    broken = tmp_path / 'configs' / 'mine' / 'broken.py'
    broken.parent.mkdir(parents=True)
    broken.write_text('model = dict(')
    (tmp_path / 'configs' / 'flatten_swin').symlink_to(ROOT / 'configs' / 'flatten_swin')
    (tmp_path / 'configs' / '_base_').symlink_to(ROOT / 'configs' / '_base_')
    rows = [
        swin_t(),
        PaperRow.of(config='configs/mine/broken.py'),
        swin_t(table='9'),
        PaperRow.of(paper='focal'),
    ]
    reports = []
    (first, failed, second, without), failures = count_rows(
        rows, tmp_path, lambda done, total, what: reports.append(f'[{done}/{total}] {what}')
    )
    assert reports == [f'[1/2] {SWIN_T}', '[2/2] configs/mine/broken.py failed']
    assert first.params == second.params == 28_288_354 and first.image == '224x224' and first.agrees
    assert first.attention == 'Softmax'
    assert not failed.is_counted and not without.is_counted
    assert len(failures) == 1 and 'configs/mine/broken.py' in failures[0]


def test_zoo_rows_have_every_config(rows):
    assert rows[: len(paper_rows())] == list(paper_rows())
    others = rows[len(paper_rows()) :]
    named = {row.config for row in rows} - {''}
    assert named == {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob('configs/*/*.py')
        if path.parent.name != '_base_'
    }
    assert all(row.cells['task'] and not row.cells['paper'] for row in others)


def test_committed_zoo_files_match_rows_and_configs(rows, committed, tool):
    """The counts are checked only in the full sweep, by `--check`."""
    fix = 'run tools/maintain/reproduce_tables.py'
    assert [entry.row for entry in committed] == rows, fix
    assert all(entry.is_counted for entry in committed if entry.row.config), fix
    files = tool.files_of(committed)
    assert [
        name for name, text in files.items() if (ROOT / name).read_text(encoding='utf-8') != text
    ] == [], fix
    written = [*ROOT.glob('configs/*/metafile.yml'), *ROOT.glob('configs/*/README.md')]
    assert {path.relative_to(ROOT).as_posix() for path in written} == {
        name for name in files if name.startswith('configs/')
    }


def test_rows_that_differ_have_a_cause(committed):
    assert [
        entry.row for entry in committed if (entry.agrees == 'no') != bool(entry.row.cause)
    ] == []


@pytest.mark.full
def test_committed_zoo_files_match_counts(tool, capsys):
    assert tool.main(['--check']) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    'config, attention',
    [
        (SWIN_T, 'Softmax'),
        ('configs/flatten_swin/flatten-swin-t_8xb128_in1k.py', 'FocusedLinear, Softmax'),
        ('configs/flatten_deit/deit-t_8xb128_in1k_hydra-attention.py', 'Hydra'),
        ('configs/l2vit/l2vit-t_32xb128_in1k.py', 'Softmax, ClampedLinear'),
        ('configs/focal/focal-t_8xb128_in1k.py', 'Focal'),
        ('configs/factorized/mask-rcnn_r50_nl-res3_fpn_32xb2-24e_coco.py', 'Conventional'),
        ('configs/psmnet/psmnet_fa_8xb3-100e_sceneflow.py', 'Factorized'),
        ('configs/agent/agent-swin-b_8xb64_in1k.py', 'Agent, Softmax'),
        ('configs/ravlt/mavit-t_8xb128_in1k.py', 'MagnitudeAwareLinear, GatedSoftmax'),
        ('configs/vittt/h-vittt-t_8xb128_in1k.py', 'TTT'),
        ('configs/resnet/resnet50_8xb32_in1k.py', ''),
        ('configs/biformer/biformer-stl_8xb128_in1k.py', 'BiLevelRouting, Softmax'),
    ],
)
def test_attentions_of_config(config, attention):
    model = read_model_config(ROOT / config)
    assert attentions_of(build_on_meta(model.model, model.default_scope)) == attention


def test_zoo_pages_list_results_by_task_and_differences():
    detector = swin_t(
        task='detection', dataset='coco', table='2a', method='mask-rcnn', schedule='1x', top1=''
    )
    entries = [
        counted(swin_t()),
        counted(detector),
        counted(swin_t(table='4')),
        counted(swin_t(table='11')),
        counted(swin_t(paper='focal', table='fig5')),
        counted(swin_t(paper='focal', table='9')),
        counted(
            swin_t(
                paper='factorized', task='stereo', backbone='psmnet', method='psmnet + attention'
            )
        ),
        counted(PaperRow.of(task='classification', config='configs/digits/mine.py')),
    ]
    pages = render_pages(entries)
    assert list(pages) == ['model_zoo.md', 'model_zoo/coverage.md']
    classification = render_task_page(entries, 'classification')
    assert [line.lstrip('# ') for line in classification.splitlines() if line.startswith('##')] == [
        'FLatten Transformer, Table 4: ImageNet-1k',
        'FLatten Transformer, Table 8: ImageNet-1k',
        'FLatten Transformer, Table 11: ImageNet-1k',
        'Focal Transformer, Table 9: ImageNet-1k',
        'Focal Transformer, Figure 5: ImageNet-1k',
        'Classification: configs without a paper',
    ]
    assert "| paper's top-1 (%) |" in classification
    assert '| [mine](../../configs/digits/mine.py) ' in classification
    assert f'| [swin-t, mask-rcnn, 1x](../../{SWIN_T}) ' in render_task_page(entries, 'detection')
    assert f'| [psmnet + attention](../../{SWIN_T}) ' in render_task_page(entries, 'stereo')
    page = pages['model_zoo.md']
    assert '7 results with 1 configs, and 1 configs of our own. For 7 of' in page
    assert (
        '0 agree with ours in all printed digits, 7 within one unit of the last digit, 0 within 2 %'
        in page
    )
    assert '## What differs' not in page
    wrong = render_pages([*entries, counted(swin_t(params_m='31', cause='a head more'))])
    assert '## What differs' in wrong['model_zoo.md']


def test_zoo_page_lists_each_cause_with_its_rows():
    head = dict(params_m='31', cause='the paper counts a head twice')
    pages = render_pages(
        [
            counted(swin_t(**head)),
            counted(swin_t(flops_g='5.0', cause='Inference: no attention')),
            counted(swin_t(flops_g='4.6', backbone='right')),
            counted(swin_t(table='9', **head)),
        ]
    )
    page = pages['model_zoo.md']
    lines = page[page.index('## What differs') :].splitlines()
    at = lines.index('- the paper counts a head twice')
    assert lines[at + 1 : at + 5] == [
        f'    - Table 8, [swin-t](../{SWIN_T}): 28.29 M parameters, the paper 31 (-8.7%)',
        f'    - Table 9, [swin-t](../{SWIN_T}): 28.29 M parameters, the paper 31 (-8.7%)',
        '- Inference: no attention',
        f'    - Table 8, [swin-t](../{SWIN_T}): 4.512 G FLOPs, the paper 5.0 (-9.8%)',
    ]
    assert not any('right' in line for line in lines)


def test_coverage_page_counts_results_and_lists_missing_models():
    printed = [
        dict(paper='flatten', table='8', results='4', note='four'),
        dict(paper='focal', table='9', results='1', note=''),
    ]
    missing = [
        dict(paper=paper, table=table, task='classification', model=model, reason=f'no {model}')
        for paper, table, model in (
            ('flatten', '8', 'ViL'),
            ('flatten', '8', 'CvT'),
            ('flatten', '9', 'ViL'),
            ('focal', '9', 'TNT'),
        )
    ]
    text = render_coverage(
        [counted(swin_t()), counted(swin_t()), counted(swin_t(paper='focal', table='2'))],
        printed,
        missing,
    )
    cells = []
    for line in text.splitlines():
        if line.startswith('| '):
            cells.append([cell.strip() for cell in line.split('|')[1:-1]])
    assert cells[2:] == [
        ['FLatten Transformer, Table 8', '4', '2', '2', 'four'],
        ['Focal Transformer, Table 9', '1', '0', '1', ''],
        ['all', '5', '2', '3', ''],
    ]
    assert [line for line in text.splitlines() if line.startswith('- ')] == [
        '- ViL (Table 8, Table 9): no ViL',
        '- CvT (Table 8): no CvT',
        '- TNT (Table 9): no TNT',
    ]


def test_metafiles_have_results_with_paper_and_counted_sizes():
    detector = PaperRow.of(
        paper='flatten',
        table='2a',
        task='detection',
        dataset='coco',
        backbone='swin-t',
        ap_box='43.7',
        ap_mask='39.8',
        config='configs/flatten_swin/mask.py',
    )
    words = swin_t(top1='fail', ap_box='44', config='configs/l2vit/x.py')
    files = render_metafiles(
        [
            counted(swin_t()),
            counted(detector),
            counted(swin_t(table='5', top1='81.2')),
            counted(words),
            ZooEntry(PaperRow.of(paper='focal')),
        ]
    )
    assert list(files) == [
        'configs/flatten_swin/metafile.yml',
        'configs/l2vit/metafile.yml',
        'model-index.yml',
    ]
    content = yaml.safe_load(files['configs/flatten_swin/metafile.yml'])
    assert content['Collections'][0]['Name'] == 'FLatten-Swin'
    mask, swin = content['Models']
    assert swin['Metadata'] == {
        'Task': 'classification',
        'Parameters': 28_288_354,
        'FLOPs': 4_492_000_000,
        'Image Size': '224x224',
    }
    assert [result['Metrics'] for result in swin['Results']] == [
        {'Top 1 Accuracy': 81.3},
        {'Top 1 Accuracy': 81.2},
    ]
    assert [result['Task'] for result in mask['Results']] == [
        'Object Detection',
        'Instance Segmentation',
    ]
    assert mask['Results'][0]['Reported By'] == 'the paper (FLatten Transformer, Table 2a)'
    assert 'Results' not in yaml.safe_load(files['configs/l2vit/metafile.yml'])['Models'][0], (
        'no figure of this model'
    )
    assert yaml.safe_load(files['model-index.yml']) == {'Import': list(files)[:2]}


def test_reproduce_tables_prints_one_table(tool, capsys):
    assert tool.main(['--paper', 'flatten', '--table', '5']) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith('## FLatten Transformer, Table 5: ImageNet-1k')
    assert 'focusing factor 32' in captured.out and '82.11' in captured.out
    assert '[5/5] configs/flatten_swin/' in captured.err


@pytest.mark.parametrize(
    'arguments, status, words',
    [
        (['--paper', 'flatten', '--table', '99'], 1, 'got 99'),
        (['--table', '8'], 2, '--table'),
        (['--check', '--paper', 'focal'], 2, '--check'),
    ],
)
def test_reproduce_tables_rejects_wrong_options(tool, capsys, arguments, status, words):
    if status == 2:
        with pytest.raises(SystemExit):
            tool.main(arguments)
    else:
        assert tool.main(arguments) == status
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_check_names_outdated_files_and_writes_nothing(tool, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tool, 'ROOT', tmp_path)
    tool.write_or_compare({'a.md': 'one', 'b.md': 'two'}, check=False)
    tool.write_or_compare({'a.md': 'one', 'b.md': 'two'}, check=True)
    assert '2 files are up to date' in capsys.readouterr().out
    with pytest.raises(ValueError, match='b.md, c.md'):
        tool.write_or_compare({'a.md': 'one', 'b.md': 'three', 'c.md': ''}, check=True)
    assert (tmp_path / 'b.md').read_text() == 'two' and not (tmp_path / 'c.md').exists()


def test_speed_page_has_measured_configs_beside_accuracies(committed):
    speeds = list(measured_speeds(ROOT))
    assert {speed.config for speed in speeds} == {*CONFIGS.values()}
    config = CONFIGS['FLatten-Swin-T']
    found = [
        (item.device, item.call, item.images_per_s) for item in speeds if item.config == config
    ]
    assert ('AMD EPYC, 2 cores', 'inference', '15.2') in found  # 8 images in 528 ms
    assert ('NVIDIA H200', 'training', '1883') in found
    (line,) = (line for line in render_speed(speeds, committed).splitlines() if config in line)
    cells = [cell.strip() for cell in line.strip('|').split('|')]
    assert cells[1:4] == ['82.1', '15.2', '21.4']
