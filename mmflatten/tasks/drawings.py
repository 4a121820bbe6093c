"""Drawings of stored predictions with the task's own visualizer."""
from typing import Any

import numpy as np
import torch
from mmengine.registry import VISUALIZERS as REGISTRY
from mmengine.registry import DefaultScope
from mmengine.structures import BaseDataElement, InstanceData, PixelData

from mmflatten.config_library import TASK_OF_SCOPE
from mmflatten.structures import StereoDataSample

VISUALIZERS = dict(
    mmpretrain='UniversalVisualizer', mmdet='DetLocalVisualizer', mmseg='SegLocalVisualizer',
    mmflatten='StereoVisualizer')
SCOPES = {task: scope for scope, task in TASK_OF_SCOPE.items()}


def task_visualizer(scope: str, metainfo: dict, kind: str | None = None) -> Any:
    """The visualizer of a library's task, or the one named `kind`, which knows the classes and their colours."""
    with DefaultScope.overwrite_default_scope(scope):
        visualizer = REGISTRY.build(dict(type=kind or VISUALIZERS[scope], name=f'drawings of {scope}'))
    visualizer.dataset_meta = metainfo
    return visualizer


def restored(task: str, entry: dict) -> BaseDataElement:
    """The data sample that an entry was made of, with what is drawn of it."""
    if task == 'classification':
        from mmpretrain.structures import DataSample
        sample = DataSample().set_pred_score(torch.as_tensor(entry['pred_score']))
        return sample.set_pred_label(entry['pred_label']).set_gt_label(entry['gt_label'])
    if task == 'stereo':
        sample = StereoDataSample(metainfo=dict(ori_shape=entry.get('ori_shape', ())))
        for name in ('gt_disparity', 'pred_disparity'):
            sample.set_data({name: PixelData(**entry[name])})
        return sample
    if task == 'segmentation':
        from mmseg.structures import SegDataSample
        sample = SegDataSample()
        for name in ('gt_sem_seg', 'pred_sem_seg'):
            sample.set_data({name: PixelData(data=torch.as_tensor(entry[name]['data']).long())})
        return sample
    from mmdet.structures import DetDataSample
    names = [name for name in ('gt_instances', 'pred_instances') if name in entry]
    return DetDataSample(**{name: _instances(entry[name], entry['ori_shape']) for name in names})


def _instances(stored: dict, hw_shape: tuple[int, int]) -> InstanceData:
    from pycocotools import mask as coco_mask
    fields = {name: torch.as_tensor(stored[name]) for name in ('bboxes', 'labels', 'scores') if name in stored}
    if 'masks' in stored:
        masks = np.array([coco_mask.decode(mask) for mask in stored['masks']], dtype=bool)
        fields['masks'] = torch.from_numpy(masks.reshape(-1, *hw_shape[:2]))
    return InstanceData(**fields)
