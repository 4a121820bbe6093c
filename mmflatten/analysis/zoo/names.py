"""What a reader of the model zoo sees in the place of the short names in its tables."""
from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

PAPERS = {'flatten': 'FLatten Transformer', 'l2vit': 'L2ViT', 'focal': 'Focal Transformer',
          'factorized': 'Factorized Attention', '': 'Configs that no paper has'}
TASKS = {'classification': 'Classification', 'detection': 'Detection', 'segmentation': 'Segmentation',
         'stereo': 'Stereo matching'}
DATASETS = {'imagenet1k': 'ImageNet-1k', 'imagenet22k': 'ImageNet-22k', 'coco': 'COCO', 'ade20k': 'ADE20K',
            'sceneflow': 'SceneFlow', 'digits': 'digit scenes'}
ACCURACIES = {'top1': 'top-1 (%)', 'ap_box': 'box AP', 'ap_mask': 'mask AP', 'miou': 'mIoU',
              'miou_ms': 'mIoU, multi-scale', 'macc': 'mAcc', 'epe': 'EPE (px)'}
# Collection and paper of a folder of configs; rows of another paper may name its configs too.
FAMILIES = {'flatten_deit': ('FLatten-DeiT', 'flatten'), 'flatten_pvt': ('FLatten-PVT', 'flatten'),
            'flatten_pvt_v2': ('FLatten-PVTv2', 'flatten'),
            'flatten_swin': ('FLatten-Swin', 'flatten'), 'flatten_cswin': ('FLatten-CSwin', 'flatten'),
            'l2vit': ('L2ViT', 'l2vit'), 'focal': ('Focal Transformer', 'focal'),
            'factorized': ('Factorized Attention', 'factorized'), 'psmnet': ('PSMNet', 'factorized'),
            'resnet': ('ResNet and ResNeXt', None), 'digits': ('Digit scenes', None)}


def place(cells: Mapping[str, str]) -> str:
    """'FLatten Transformer, Table 2a' for a row's cells."""
    return f'{PAPERS[cells["paper"]]}, {table_name(cells["table"])}'


def table_name(table: str) -> str:
    """'Table 2a' or 'Figure 5' for '2a' or 'fig5'."""
    return f'Figure {table[3:]}' if table.startswith('fig') else f'Table {table}'


def model_name(cells: Mapping[str, str]) -> str:
    """'swin-t, mask-rcnn, 1x' for a row of a paper, the config's name for a config that no paper has."""
    if not cells['paper']:
        return PurePosixPath(cells['config']).stem
    parts = [cells[column] for column in ('backbone', 'method', 'schedule') if cells[column] not in ('', '-', '300e')]
    return ', '.join(parts[1:] if cells['method'].startswith(cells['backbone']) else parts)
