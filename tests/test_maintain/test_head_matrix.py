"""Table of backbones and heads: complete, and made by trainings."""

from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope='module')
def tool(load_tool) -> ModuleType:
    return load_tool('head_matrix')


@pytest.fixture(scope='module')
def scenes(tool, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('matrix') / 'digits'
    tool.write_scenes(root)
    return root


def test_table_has_every_backbone_and_head(tool):
    cells = tool.read_cells(tool.TABLE)
    expected = {(backbone, head) for backbone in tool.backbones() for head in tool.heads()}
    assert {(cell.backbone, cell.head) for cell in cells} == expected
    assert tool.PAGE.read_text(encoding='utf-8') == tool.render(cells)


def test_heads_are_the_model_parts(tool):
    names = set(tool.heads())
    papers = {'mask-rcnn_fpn', 'cascade-mask-rcnn_fpn', 'retinanet_fpn', 'atss_fpn', 'upernet'}
    assert names >= papers | {'semantic-fpn', 'panoptic-fpn', 'mask2former', 'dino-4scale'}
    assert names >= {'encoder-mask', 'encoder-mask_segmentor', 'mask2former_segmentor'}
    assert tool.heads()['upernet'].stem == 'upernet_nano'


def test_only_missing_cells_run(tool, tmp_path):
    head, backbone = 'upernet', 'ViT'
    done = tool.Cell(backbone, head, 'yes', 'no', 'an error, with "quotes"')
    tool.write_cells(tmp_path / 'heads.csv', [done])
    assert tool.read_cells(tmp_path / 'heads.csv') == [done]
    left = list(tool.missing({(backbone, head): done}, None))
    assert (backbone, head) not in left
    assert len(left) == len(tool.backbones()) * len(tool.heads()) - 1
    again = list(tool.missing({(backbone, head): done}, head))
    assert again == [(name, head) for name in tool.backbones()]
    with pytest.raises(ValueError, match='--only'):
        list(tool.missing({}, 'no such head'))


def test_cell_trains_and_predicts(tool, scenes):
    cell = tool.run_cell('ViT', 'encoder-mask', scenes)
    assert cell == tool.Cell('ViT', 'encoder-mask', trains='yes', predicts='yes')


def test_cell_reports_its_error(tool, scenes, monkeypatch):
    monkeypatch.setattr(tool, 'connect', lambda model, scope: model.backbone.update(arch='none'))
    cell = tool.run_cell('FLattenPVT', 'semantic-fpn', scenes)
    assert not cell.works and cell.trains == 'no' and 'none' in cell.error


@pytest.mark.full
def test_all_cells_give_the_results_of_the_table(tool, tmp_path):
    cells = [(backbone, head) for head in tool.heads() for backbone in tool.backbones()]
    found = {cell[:2]: cell.works for cell in tool.sweep(cells)}
    assert found == {cell[:2]: cell.works for cell in tool.read_cells(tool.TABLE)}
