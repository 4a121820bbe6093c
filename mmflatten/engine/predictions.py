"""What a test leaves behind: predictions as data, and predictions as pictures."""
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mmcv
import numpy as np
import torch
from mmengine.dist import get_rank, get_world_size
from mmengine.evaluator import DumpResults
from mmengine.fileio import get
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement

_DROPPED = ('gt_', 'ignored_instances', 'seg_logits', 'proposals')
DRAWING_SCORE = 0.3
READABLE_SIDE = 224


class DumpPredictions(DumpResults):
    """Collect one dictionary per image, in the order of the data set, and write them as a pickled list.

    An entry holds the meta information (`img_path`, `ori_shape`, ...) and what the task predicts, as NumPy arrays:
    `pred_score` (K), `pred_label`; or `pred_instances` with `bboxes` (n, 4) in pixels x1 y1 x2 y2, `scores`,
    `labels` and, for masks, COCO run lengths; or `pred_sem_seg` (H, W) with the smallest integer type that holds
    the classes; or `pred_disparity` (H, W) in pixels. Ground truth and raw score maps are left out.
    """

    def process(self, data_batch: Any, predictions: Sequence[dict]) -> None:
        self.results.extend(_plain(prediction) for prediction in predictions)


def _plain(element: Any, key: str = '') -> Any:
    """Tensors to arrays, masks to run lengths, data elements to dictionaries."""
    if isinstance(element, BaseDataElement):
        element = element.to_dict()
    if isinstance(element, dict):
        if key == 'pred_sem_seg':
            labels = _plain(element['data'])[0]
            return labels.astype(np.min_scalar_type(max(int(labels.max()), 255)))
        if key == 'pred_disparity':
            return _plain(element['data'])[0]
        return {name: _plain(value, name) for name, value in element.items() if not name.startswith(_DROPPED)}
    if isinstance(element, torch.Tensor):
        element = element.detach().cpu().numpy()
    if key == 'masks' and isinstance(element, np.ndarray):
        from mmdet.structures.mask import encode_mask_results
        return encode_mask_results(element)
    return element


class DrawPredictions(Hook):
    """Save a drawing of every tested image with the task's own visualizer, the truth beside it where there is one.

    Files are named `<number of the image>_<name of the image>.png`.
    """

    def __init__(self, out_dir: str) -> None:
        self.out_dir = Path(out_dir)
        self.drawn = 0

    def before_test_epoch(self, runner: Runner) -> None:
        self.out_dir.mkdir(parents=True, exist_ok=True)
        self.drawn = 0

    def after_test_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None,
                        outputs: Sequence[Any] = ()) -> None:
        for sample in outputs:
            # The processes of a distributed test take turns through the data set.
            number = self.drawn * get_world_size() + get_rank()
            self.drawn += 1
            image = mmcv.imfrombytes(get(sample.img_path), channel_order='rgb')
            out_file = self.out_dir / f'{number:06d}_{Path(sample.img_path).stem}.png'
            _draw(runner.visualizer, image, sample, str(out_file))


def _draw(visualizer: Any, image: np.ndarray, sample: Any, out_file: str) -> None:
    if hasattr(visualizer, 'visualize_cls'):
        # Text is drawn into the image, which must be large enough to read it.
        visualizer.visualize_cls(image, sample, resize=max(READABLE_SIDE, min(image.shape[:2])), out_file=out_file)
        return
    options = dict(pred_score_thr=DRAWING_SCORE) if 'pred_instances' in sample else {}
    visualizer.add_datasample(Path(out_file).stem, image, sample, out_file=out_file, **options)
