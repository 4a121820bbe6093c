"""COCO annotations, checked when they are read: mmdet skips silently what it cannot use (needs mmdet)."""
from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO

from mmflatten.checkpoints.rules import shorten
from mmflatten.registry import DATASETS


class AnnotationError(ValueError):
    """An annotation that contradicts its file, or a file that lacks a class of the data set."""


class CheckedCOCO(COCO):
    """COCO's annotations, refused where mmdet would train on something else than the file says.

    Raises:
        AnnotationError: an annotation of an unknown category or image, or with a box outside its image.
    """

    def __init__(self, annotation_file: str | None = None) -> None:
        super().__init__(annotation_file)
        self.annotation_file = annotation_file
        for annotation in self.dataset.get('annotations', []):
            if (problem := self._problem(annotation)) is not None:
                raise AnnotationError(f'annotation {annotation.get("id")} in {annotation_file} {problem}; correct or '
                                      'remove it')

    def _problem(self, annotation: dict) -> str | None:
        category, image = annotation.get('category_id'), self.imgs.get(annotation.get('image_id'))
        if category not in self.cats:
            known = shorten([*map(str, self.cats)], 5)
            return f'has the category_id {category}, which is not one of the categories ({known})'
        if image is None:
            return f'has the image_id {annotation.get("image_id")}, which is not listed under images'
        if 'bbox' in annotation and not _overlap(*annotation['bbox'], image):
            return (f'has a box outside its image: [x, y, width, height] = {annotation["bbox"]}, and '
                    f'{image.get("file_name")} is {image["width"]} x {image["height"]}')
        return None

    def get_cat_ids(self, cat_names: list = [], sup_names: list = [], cat_ids: list = []) -> list:
        """As in mmdet, which returns them in the file's order.

        Raises:
            AnnotationError: a class has no category, two have one name, or the order is not that of the classes: mmdet
                would give labels to the wrong names.
        """
        names = {category['name'] for category in self.cats.values()}
        missing = [name for name in cat_names if name not in names]
        if missing and names:
            raise AnnotationError(f"{self.annotation_file} has no category {shorten(missing, 5)} of the data set's "
                                  f'{len(cat_names)} classes, only {shorten(sorted(names), 5)}; give the data set '
                                  'metainfo=dict(classes=...), in train_, val_ and test_dataloader')
        ids = super().get_cat_ids(cat_names, sup_names, cat_ids)
        found = [self.cats[category]['name'] for category in ids]
        if cat_names and found != [*cat_names][:len(found)]:
            raise AnnotationError(f'{self.annotation_file} lists its categories as {shorten(found, 5)}, and the data '
                                  f"set's classes are {shorten(cat_names, 5)}; mmdet numbers them in the file's order, "
                                  'so give metainfo=dict(classes=...) the same names in the same order')
        return ids


@DATASETS.register_module()
class CheckedCocoDataset(CocoDataset):
    """mmdet's `CocoDataset`, which reads its file with `CheckedCOCO`."""

    COCOAPI = CheckedCOCO


def _overlap(x: float, y: float, width: float, height: float, image: dict) -> bool:
    return x < image['width'] and y < image['height'] and x + width > 0 and y + height > 0
