"""Full names of the papers, tables, tasks, data sets and metrics in the model zoo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

PAPERS = {
    'flatten': 'FLatten Transformer',
    'l2vit': 'L2ViT',
    'focal': 'Focal Transformer',
    'factorized': 'Factorized Attention',
    'slab': 'SLAB',
    'agent': 'Agent Attention',
    'inline': 'InLine',
    'mila': 'MILA',
    'rala': 'RALA',
    'polaformer': 'PolaFormer',
    'mala': 'MALA',
    'polaformerpp': 'PolaFormer++',
    'nala': 'NaLaFormer',
    'biformer': 'BiFormer',
    'mhla': 'MHLA',
    'vittt': 'ViT^3',
    'circulant': 'Circulant Attention',
    'vca': 'Visual-contrast Attention',
    'rmt': 'RMT',
    '': 'Configs without a paper',
}
# Sources other than a numbered table. `notes` are numbers that others copied from a paper; they
# were not checked.
PLACES = {'readme': 'README', 'paper': 'in the paper', 'notes': 'notes on the paper'}
TASKS = {
    'classification': 'Classification',
    'detection': 'Detection',
    'panoptic': 'Panoptic segmentation',
    'segmentation': 'Segmentation',
    'stereo': 'Stereo matching',
}
DATASETS = {
    'imagenet1k': 'ImageNet-1k',
    'imagenet22k': 'ImageNet-22k',
    'coco': 'COCO',
    'ade20k': 'ADE20K',
    'sceneflow': 'SceneFlow',
    'digits': 'digit scenes',
}
ACCURACIES = {
    'top1': 'top-1 (%)',
    'ap_box': 'box AP',
    'ap_mask': 'mask AP',
    'miou': 'mIoU',
    'miou_ms': 'mIoU, multi-scale',
    'macc': 'mAcc',
    'epe': 'EPE (px)',
}
# Folder of configs -> collection and paper. Rows of other papers may also name its configs.
FAMILIES = {
    'flatten_deit': ('FLatten-DeiT', 'flatten'),
    'flatten_pvt': ('FLatten-PVT', 'flatten'),
    'flatten_pvt_v2': ('FLatten-PVTv2', 'flatten'),
    'flatten_swin': ('FLatten-Swin', 'flatten'),
    'flatten_cswin': ('FLatten-CSwin', 'flatten'),
    'l2vit': ('L2ViT', 'l2vit'),
    'focal': ('Focal Transformer', 'focal'),
    'factorized': ('Factorized Attention', 'factorized'),
    'psmnet': ('PSMNet', 'factorized'),
    'slab': ('SLAB', 'slab'),
    'agent': ('Agent Attention', 'agent'),
    'inline': ('InLine', 'inline'),
    'mila': ('MILA', 'mila'),
    'ravlt': ('RAVLT and its relatives', 'rala'),
    'polaformer': ('PolaFormer', 'polaformer'),
    'mhla': ('MHLA', 'mhla'),
    'vittt': ('ViT^3', 'vittt'),
    'circulant': ('Circulant Attention', 'circulant'),
    'biformer': ('BiFormer', 'biformer'),
    'resnet': ('ResNet and ResNeXt', None),
    'vit': ('Plain ViT', None),
    'mask2former': ('Mask2Former', None),
    'dino': ('DINO', None),
    'encoder_mask': ('EncoderMaskHead', None),
    'comparison': ('Models of other packages', None),
    'digits': ('Digit scenes', None),
}


def place(cells: Mapping[str, str]) -> str:
    """Return the paper and table of a row, such as 'FLatten Transformer, Table 2a'."""
    return f'{PAPERS[cells["paper"]]}, {table_name(cells["table"])}'


def table_name(table: str) -> str:
    """Convert '2a', 'fig5' or 'readme' to 'Table 2a', 'Figure 5' or 'README'."""
    if table.startswith('fig'):
        return f'Figure {table.removeprefix("fig")}'
    return PLACES.get(table, f'Table {table}')


def model_name(cells: Mapping[str, str]) -> str:
    """Return the model of a row, such as 'swin-t, mask-rcnn, 1x'.

    A row without a paper has the name of its config.
    """
    if not cells['paper']:
        return PurePosixPath(cells['config']).stem
    columns = [cells[column] for column in ('backbone', 'method', 'schedule')]
    parts = [cell for cell in columns if cell not in ('', '-', '300e')]
    if cells['method'].startswith(cells['backbone']):
        parts = parts[1:]  # the method names the backbone
    return ', '.join(parts)
