"""Drawings of stored predictions with the task's own visualizer."""
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.registry import VISUALIZERS as REGISTRY
from mmengine.registry import DefaultScope
from mmengine.structures import BaseDataElement, InstanceData, PixelData

from mmflatten.config_library import TASK_OF_SCOPE
from mmflatten.datasets.storage import read_rgb
from mmflatten.engine.predictions import draw_sample
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


def draw_entries(task: str, entries: Sequence[dict], metainfo: dict, out_dir: str | Path, score: float) -> list[Path]:
    """Draw predictions beside the truth, `<number>_<name of the image>.png` each.

    Args:
        task: classification, detection, segmentation or stereo.
        entries: as `DumpPredictions` stores them.
        metainfo: `classes` and, where there are any, their `palette`.
        score: instances below it are left out.

    Raises:
        FileNotFoundError: an image is not there any more.
    """
    visualizer, out_dir, files = task_visualizer(SCOPES[task], metainfo), Path(out_dir), []
    out_dir.mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(entries):
        path = entry['img_path']
        files.append(out_dir / f'{number:03d}_{Path(path).stem}.png')
        image = read_rgb(path)
        draw_sample(visualizer, image, restored(task, entry), str(files[-1]), score=score)
    return files


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
