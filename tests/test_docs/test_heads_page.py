"""The table of costs in docs/heads.md, against the counted costs of the model zoo."""

from pathlib import Path

import pytest

from mmflatten.config import library

PAGE = Path(__file__).parents[2] / 'docs' / 'heads.md'
PLAIN = {'DINOv2-S': 'dinov2-s_simple-fpn', 'DINOv3-B': 'dinov3-b-frozen_simple-fpn'}
CONFIGS = {
    'Mask R-CNN': 'mask-rcnn_{}{fpn}_1x_coco',
    'Mask2Former': 'mask2former_{}_8xb2-lsj-50e_coco',
    'EncoderMask': 'encoder-mask_{}_12e_coco',
    'RetinaNet': 'retinanet_{}{fpn}_1x_coco',
    'DINO-4scale': 'dino-4scale_{}_8xb2-12e_coco',
    'UperNet': 'upernet_{}_8xb2-160k_ade20k-512x512',
    'Mask2Former, semantic': 'mask2former_{}_8xb2-160k_ade20k-512x512',
    'EncoderMask, semantic': 'encoder-mask_{}_8xb2-40k_ade20k-512x512',
}


def rows_of_page() -> list[list[str]]:
    """Return the cells of the table whose first column is the head, with its header."""
    rows = []
    for line in PAGE.read_text(encoding='utf-8').splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if cells[0] == 'head' or cells[0] in CONFIGS:
            rows.append(cells)
    return rows


@pytest.mark.parametrize('head', CONFIGS)
def test_costs_are_those_of_the_model_zoo(head):
    header, *rows = rows_of_page()
    cells = next(row for row in rows if row[0] == head)
    for backbone, cell in zip(header[1:], cells[1:], strict=True):
        name = PLAIN.get(backbone, backbone.lower())
        if head.startswith('EncoderMask'):
            name = name.removesuffix('_simple-fpn')
        config = CONFIGS[head].format(name, fpn='' if backbone in PLAIN else '_fpn')
        if cell == '-':
            assert config not in library()
            continue
        facts = library()[config]['Metadata']
        params, macs = facts['Parameters'] / 1e6, facts['FLOPs'] / 1e9
        assert cell == f'{params:.1f} M, {macs:.0f} G'
