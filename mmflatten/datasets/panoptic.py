"""COCO panoptic annotations, checked on loading (needs mmdet, not `panopticapi`)."""

import os.path as osp
from typing import Any

import numpy as np
from mmdet.datasets import CocoPanopticDataset
from mmdet.datasets.api_wrappers import COCOPanoptic
from mmdet.datasets.transforms import LoadAnnotations
from mmdet.structures.mask import BitmapMasks

from mmflatten.registry import DATASETS, TRANSFORMS
from mmflatten.structures.segments import (
    VOID,
    SegmentError,
    category_ids,
    check_segments,
    read_segment_ids,
)
from mmflatten.text import shorten

IGNORED = 255  # label of void pixels in the semantic map


class CheckedCOCOPanoptic(COCOPanoptic):
    """COCO panoptic annotations that raise an SegmentError if mmdet would misread them.

    Attributes:
        segment_files: image id -> name of the PNG file.
    """

    def __init__(self, annotation_file: str | None = None) -> None:
        super().__init__(annotation_file)
        self.annotation_file = annotation_file
        self.segment_files: dict[Any, str] = {}
        for annotation in self.dataset.get('annotations', []):
            problem = self._problem(annotation)
            if problem:
                raise SegmentError(
                    f'annotation of image {annotation.get("image_id")} in {annotation_file}'
                    f' {problem}. Correct or remove it.'
                )
            self.segment_files[annotation['image_id']] = annotation['file_name']

    def _problem(self, annotation: dict) -> str:
        """Describe the problem of the annotation of an image, '' if there is none."""
        if annotation['image_id'] not in self.imgs:
            return 'has an image_id that is not listed under images'
        seen = {VOID}
        for segment in annotation['segments_info']:
            if segment['category_id'] not in self.cats:
                known = shorten([*map(str, self.cats)], 5)
                return (
                    f'has a segment of category_id {segment["category_id"]}, which is not one of'
                    f' the categories ({known})'
                )
            if segment['id'] in seen:
                return f'has the segment id {segment["id"]}, which is {VOID} or used twice'
            seen.add(segment['id'])
        return ''

    def get_ann_ids(self, img_ids: list = [], *others: Any, **options: Any) -> list:
        """Return the image id and the position of each segment of images.

        The ids of segments are unique within an image alone. mmdet would look up an id in all
        images, for each image.
        """
        keys = []
        for image in img_ids:
            keys += [(image, position) for position in range(len(self.imgToAnns[image]))]
        return keys

    def load_anns(self, ids: list = []) -> list[dict]:
        """Return the segments of the keys of `get_ann_ids`."""
        return [self.imgToAnns[image][position] for image, position in ids]

    def get_cat_ids(self, cat_names: list = [], sup_names: list = [], cat_ids: list = []) -> list:
        """Return the category ids in the order of the class names.

        Raises SegmentError if the names of the categories differ from them.
        """
        return category_ids([*self.cats.values()], cat_names, str(self.annotation_file))


@DATASETS.register_module()
class PanopticDataset(CocoPanopticDataset):
    """mmdet's `CocoPanopticDataset` with checks.

    Labels follow the order of `classes`, the things first, whatever the order of the file's
    categories. The PNG file of an image is that of its annotation.
    """

    COCOAPI = CheckedCOCOPanoptic

    def load_data_list(self) -> list[dict]:
        """Load the annotations.

        Raises:
            SegmentError: the things and stuff of the file differ from those of the classes.
        """
        things, stuff = self.metainfo['thing_classes'], self.metainfo['stuff_classes']
        if [*things, *stuff] != [*self.metainfo['classes']]:
            raise SegmentError(
                'classes: expected thing_classes followed by stuff_classes, got'
                f' {shorten(self.metainfo["classes"], 5)}. Set all three in metainfo.'
            )
        return super().load_data_list()

    def parse_data_info(self, raw_data_info: dict) -> dict:
        for segment in raw_data_info['raw_ann_info']:
            category = self.coco.cats[segment['category_id']]
            is_thing = int(category['name'] in self.metainfo['thing_classes'])
            if is_thing != category.get('isthing'):
                raise SegmentError(
                    f'isthing of {category["name"]}: expected {is_thing} as in thing_classes,'
                    f' got {category.get("isthing")} in {self.ann_file}. Correct one of them.'
                )
        info = super().parse_data_info(raw_data_info)
        # mmdet skips segments with an area or a side of the box below 1 pixel: they become void.
        kept = {segment['id'] for segment in info['segments_info']}
        segments = raw_data_info['raw_ann_info']
        info['skipped_segments'] = [item for item in segments if item['id'] not in kept]
        file = self.coco.segment_files.get(info['img_id'])
        if info['seg_map_path'] is not None and file is not None:
            info['seg_map_path'] = osp.join(self.data_prefix['seg'], file)
        return info


@TRANSFORMS.register_module()
class LoadPanopticAnnotations(LoadAnnotations):
    """mmdet's transform of the same name, without `panopticapi`.

    Adds `gt_bboxes`, `gt_bboxes_labels`, `gt_ignore_flags` and `gt_masks` of the things that are
    no crowd, and the labels of all pixels, `gt_seg_map` (H, W) uint8, 255 where void.

    Args:
        with_bbox, with_label, with_mask, with_seg: add these annotations.
        backend_args: of MMEngine's `fileio`.
    """

    def __init__(
        self,
        with_bbox: bool = True,
        with_label: bool = True,
        with_mask: bool = True,
        with_seg: bool = True,
        backend_args: dict | None = None,
    ) -> None:
        super().__init__(
            with_bbox=with_bbox,
            with_label=with_label,
            with_mask=with_mask,
            with_seg=with_seg,
            backend_args=backend_args,
        )

    def transform(self, results: dict) -> dict:
        """Add the annotations of an image.

        Raises:
            SegmentError: the PNG file cannot be decoded, or has another size or other segments
                than the annotation.
        """
        if self.with_bbox:
            self._load_bboxes(results)
        if self.with_label:
            self._load_labels(results)
        # A data set without ground truth has no PNG files.
        if results.get('seg_map_path') is not None:
            self._load_segments(results)
        return results

    def _load_segments(self, results: dict) -> None:
        file, segments = results['seg_map_path'], results['segments_info']
        ids = read_segment_ids(file, results['ori_shape'], backend_args=self.backend_args)
        check_segments(ids, [*segments, *results.get('skipped_segments', ())], file)
        masks = []
        labels = np.full(ids.shape, IGNORED, dtype=np.uint8)
        for segment in segments:
            mask = ids == segment['id']
            labels[mask] = segment['category']
            if segment['is_thing']:
                masks.append(mask.astype(np.uint8))
        if self.with_mask:
            results['gt_masks'] = BitmapMasks(masks, *ids.shape)
        if self.with_seg:
            results['gt_seg_map'] = labels
