"""COCO annotations checked on loading, because mmdet silently skips what it cannot use (needs
mmdet).
"""

from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO

from mmflatten.datasets.masks import can_be_drawn, overlaps
from mmflatten.registry import DATASETS
from mmflatten.text import shorten


class AnnotationError(ValueError):
    """Error of an annotation that contradicts its file, or of a file without a class of the data
    set.
    """


class CheckedCOCO(COCO):
    """COCO annotations that raise an AnnotationError if mmdet would skip or misread them."""

    def __init__(self, annotation_file: str | None = None) -> None:
        super().__init__(annotation_file)
        self.annotation_file = annotation_file
        for annotation in self.dataset.get('annotations', []):
            problem = self._problem(annotation)
            if problem:
                raise AnnotationError(
                    f'annotation {annotation.get("id")} in {annotation_file} {problem}. Correct or '
                    'remove it.'
                )

    def _problem(self, annotation: dict) -> str:
        """Describe the problem of an annotation, '' if there is none."""
        category = annotation.get('category_id')
        if category not in self.cats:
            known = shorten([*map(str, self.cats)], 5)
            return f'has the category_id {category}, which is not one of the categories ({known})'
        image = self.imgs.get(annotation.get('image_id'))
        if image is None:
            number = annotation.get('image_id')
            return f'has the image_id {number}, which is not listed under images'
        if 'bbox' in annotation and not overlaps(annotation['bbox'], image):
            return (
                f'has a box outside its image: [x, y, width, height] = {annotation["bbox"]},'
                f' and {image.get("file_name")} is {image["width"]} x {image["height"]}'
            )
        segmentation = annotation.get('segmentation')
        if segmentation and not can_be_drawn(segmentation, image):
            return (
                'has a segmentation that does not fit its image: polygons need pixels near it,'
                ' and run lengths its size and number of pixels'
            )
        return ''

    def get_cat_ids(self, cat_names: list = [], sup_names: list = [], cat_ids: list = []) -> list:
        """Return category ids in the order of the file, as mmdet does.

        Raises AnnotationError if a class has no category, two categories share a name, or the order
        differs from the classes. In each case mmdet would assign labels to the wrong names.
        """
        names = {category['name'] for category in self.cats.values()}
        missing = [name for name in cat_names if name not in names]
        if missing and names:
            raise AnnotationError(
                f'classes: no category {shorten(missing, 5)} (of {len(cat_names)} classes) in '
                f'{self.annotation_file}, got {shorten(sorted(names), 5)}. Set '
                'metainfo=dict(classes=...) in train_, val_ and test_dataloader.'
            )
        ids = super().get_cat_ids([], sup_names, cat_ids)
        if cat_names:
            wanted = set(cat_names)  # pycocotools would search a list for each category
            ids = [category for category in ids if self.cats[category]['name'] in wanted]
        ordered = [self.cats[category]['name'] for category in ids]
        if cat_names and ordered != [*cat_names][: len(ordered)]:
            raise AnnotationError(
                f'classes: expected the order of the categories in {self.annotation_file}, '
                f'{shorten(ordered, 5)}, got {shorten(cat_names, 5)}. mmdet numbers classes in the '
                'order of the file: reorder its categories; before a training, '
                'metainfo=dict(classes=...) may follow the file instead.'
            )
        return ids


@DATASETS.register_module()
class CheckedCocoDataset(CocoDataset):
    """mmdet's `CocoDataset` with the checks of `CheckedCOCO`."""

    COCOAPI = CheckedCOCO
