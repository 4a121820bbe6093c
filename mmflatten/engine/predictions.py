"""Predictions as data and as drawings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from mmengine.dist import get_rank, get_world_size
from mmengine.evaluator import DumpResults
from mmengine.fileio import dump
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner
from mmengine.structures import PixelData

from mmflatten.checkpoints.run_files import atomic_write
from mmflatten.console import quiet_libraries
from mmflatten.datasets.bands import read_drawable
from mmflatten.engine.fonts import fonts_for, say_once
from mmflatten.registry import HOOKS
from mmflatten.structures.segments import INSTANCE_OFFSET

DRAWING_SCORE = 0.3
READABLE_SIDE = 224
ENLARGED_SIDE = 4096  # largest longer side when the shorter one is enlarged


class DumpPredictions(DumpResults):
    """Collect one dictionary per image, in the order of the data set, and write them as a pickled
    list.

    OpenMMLab's own analysis tools read the file. An entry holds the meta information (`img_path`,
    `ori_shape`, ...), what the task predicts and, where the test pipeline loads it, the truth under
    `gt_...`, as tensors on the CPU: `pred_score` (K), `pred_label` (1); or `pred_instances` with
    `bboxes` (n, 4) in pixels x1 y1 x2 y2, `scores` (n), `labels` (n) and, for masks, n COCO run
    lengths; or `pred_sem_seg.data` (1, H, W), bytes up to 255 classes; or
    `pred_panoptic_seg.sem_seg` (1, H, W), label + 1000 x the number of the instance; or
    `pred_disparity.data` (1, H, W) in pixels. Raw score maps and proposals are left out.
    """

    default_prefix = ''  # it computes no metrics; MMEngine warns about a metric without a prefix

    def process(self, data_batch: Any, predictions: Sequence[dict]) -> None:
        start = len(self.results)
        super().process(data_batch, predictions)
        for sample in self.results[start:]:
            for name in ('seg_logits', 'i_seg_logits', 'proposals'):
                sample.pop(name, None)
            for name, value in sample.items():
                if name.endswith('_instances') and 'masks' in value:
                    value['masks'] = run_lengths(value['masks'])
                elif name.endswith('_sem_seg'):
                    _shrink_labels(value, torch.uint8)
                elif name.endswith('_panoptic_seg'):
                    _shrink_labels(value, torch.int16)

    def compute_metrics(self, results: list[dict]) -> dict:
        with atomic_write(self.out_file_path) as partial:
            dump(results, str(partial))
        print_log(f'Predictions: {self.out_file_path}', logger='current')
        return {}


def _shrink_labels(maps: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
    """Store label maps in a smaller type, if it holds their labels."""
    for key, labels in maps.items():
        if int(labels.max()) <= torch.iinfo(dtype).max:
            maps[key] = labels.to(dtype)


def run_lengths(masks: Any) -> list[dict]:
    """COCO run lengths of (n, H, W) predicted masks or of mmdet's structure of true ones."""
    from mmdet.structures.mask import encode_mask_results

    arrays = masks.numpy() if isinstance(masks, torch.Tensor) else masks.to_ndarray()
    return encode_mask_results(arrays)


class DrawPredictions(Hook):
    """Save a drawing of every tested image with the task's visualizer, the truth beside it if the
    sample has it.

    Files are named `<number of the image>_<name of the image>.png`.
    """

    def __init__(self, out_dir: str) -> None:
        self.out_dir, self.drawn = Path(out_dir), 0

    def before_test_epoch(self, runner: Runner) -> None:
        self.out_dir.mkdir(parents=True, exist_ok=True)
        self.drawn = 0

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Sequence[Any] = ()
    ) -> None:
        for sample in outputs:
            # The processes of a distributed test take turns through the data set.
            number = self.drawn * get_world_size() + get_rank()
            self.drawn += 1
            out_file = self.out_dir / f'{number:06d}_{Path(sample.img_path).stem}.png'
            draw_sample(
                visualizer=runner.visualizer,
                image=_image_of(sample),
                sample=sample,
                out_file=str(out_file),
            )


@HOOKS.register_module()
class DrawValidationHook(Hook):
    """Draw the first image of every `interval`-th validation batch, with ground truth and
    prediction.

    With `LocalVisBackend`, the drawings are `vis_data/vis_image/<image name>_<batch>_<training
    step>.png` in the folder of the run. Other visualizer backends receive them too.
    """

    def __init__(self, interval: int = 50) -> None:
        if interval < 1:
            raise ValueError(f'interval: expected a positive integer, got {interval}.')
        self.interval = interval

    def after_val_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Sequence[Any] = ()
    ) -> None:
        if not outputs or batch_idx % self.interval:
            return
        sample = outputs[0]
        draw_sample(
            visualizer=runner.visualizer,
            image=_image_of(sample),
            sample=sample,
            name=f'{Path(sample.img_path).stem}_{batch_idx}',
            step=runner.iter,
        )


def draw_sample(
    visualizer: Any,
    image: np.ndarray,
    sample: Any,
    out_file: str | None = None,
    *,
    name: str = 'drawing',
    step: int = 0,
    score: float = DRAWING_SCORE,
    truth: bool = True,
) -> None:
    """Draw a prediction to a file, else to the visualizer's backends.

    Args:
        image: (H, W, 3) RGB.
        name: of the drawing in the backends, with the `step` of training.
        score: instances below it are left out.
        truth: draw the truth too, where the sample has it.
    """
    options: dict[str, Any] = dict(draw_gt=truth, out_file=out_file, step=step)
    names = ''.join((getattr(visualizer, 'dataset_meta', None) or {}).get('classes') or ())
    if not names.isascii() and 'pred_sem_seg' in sample:
        say_once('drawings: label maps have no class names, since OpenCV writes ASCII alone.')
        options['with_labels'], names = False, ''
    if getattr(sample, 'pred_panoptic_seg', None) is not None:
        sample = drawable_panoptic(sample, len(visualizer.dataset_meta['classes']))
    # Matplotlib would typeset a name between dollars as a formula.
    with rc_context({'text.parse_math': False, **fonts_for(names)}), quiet_libraries():
        if hasattr(visualizer, 'visualize_cls'):
            # Text is drawn into the image, which must be large enough to read it.
            short, long = sorted(image.shape[:2])
            resize = max(short, min(READABLE_SIDE, ENLARGED_SIDE * short // long))
            visualizer.visualize_cls(image, sample, name=name, resize=resize, **options)
            return
        if 'pred_instances' in sample:
            options['pred_score_thr'] = score
        visualizer.add_datasample(name, image, sample, **options)


def drawable_panoptic(sample: Any, num_classes: int) -> Any:
    """Return a data sample whose truth is a panoptic map, too, without maps of void alone.

    mmdet's visualizer cannot draw a map without segments, and draws true instances and labels in
    one another.
    """
    from mmdet.structures import DetDataSample

    maps = dict(pred_panoptic_seg=sample.pred_panoptic_seg.sem_seg.cpu().numpy())
    if 'gt_sem_seg' in sample and 'gt_instances' in sample:
        maps['gt_panoptic_seg'] = _true_panoptic(sample, num_classes)
    drawable = DetDataSample(metainfo=sample.metainfo)
    for name, panoptic in maps.items():
        panoptic = np.where(panoptic % INSTANCE_OFFSET < num_classes, panoptic, num_classes)
        if (panoptic != num_classes).any():
            data = panoptic if name.startswith('gt') else torch.from_numpy(panoptic)
            drawable.set_data({name: PixelData(sem_seg=data)})
    return drawable


def _true_panoptic(sample: Any, num_classes: int) -> np.ndarray:
    """Return the map (1, H, W) of true labels with the numbers of the instances, in mmdet's
    format.
    """
    labels = sample.gt_sem_seg.sem_seg.cpu().numpy().astype(np.int64)
    panoptic = np.where(labels < num_classes, labels, num_classes)
    instances = sample.gt_instances
    masks = instances.masks
    masks = masks.cpu().numpy() if isinstance(masks, torch.Tensor) else masks.to_ndarray()
    for number, (label, mask) in enumerate(zip(instances.labels.tolist(), masks), 1):
        panoptic[0, mask.astype(bool)] = label + number * INSTANCE_OFFSET
    return panoptic


def _image_of(sample: Any) -> np.ndarray:
    return read_drawable(sample.img_path)
