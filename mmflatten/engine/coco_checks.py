"""COCO annotations, checked when they are read: mmdet skips silently what it cannot use (needs mmdet)."""
import logging
from collections import Counter

from mmdet.datasets import CocoDataset
from mmdet.datasets.api_wrappers import COCO
from mmengine.logging import print_log

from mmflatten.engine.errors import first


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
            self._check(annotation)

    def _check(self, annotation: dict) -> None:
        image = self.imgs.get(annotation.get('image_id'))
        if annotation.get('category_id') not in self.cats:
            problem = (f'has the category_id {annotation.get("category_id")}, which is not one of the '
                       f"file's {len(self.cats)} categories ({first(list(map(str, self.cats)), 5)}); correct "
                       'one of the two')
        elif image is None:
            problem = (f'has the image_id {annotation.get("image_id")}, which the file does not list under images; '
                       'add the image or remove the annotation')
        elif 'bbox' in annotation and not _overlap(*annotation['bbox'], image):
            problem = (f'has a box outside its image: [x, y, width, height] = {annotation["bbox"]}, and '
                       f'{image.get("file_name")} is {image["width"]} x {image["height"]}; correct or remove it')
        else:
            return
        raise AnnotationError(f'annotation {annotation.get("id")} in {self.annotation_file} {problem}')

    def get_cat_ids(self, cat_names: list = [], sup_names: list = [], cat_ids: list = []) -> list:
        """As in mmdet; raises AnnotationError where a class has no category: labels count those that have one."""
        if cat_names and self.cats:
            self._check_classes(cat_names)
        return super().get_cat_ids(cat_names, sup_names, cat_ids)

    def _check_classes(self, classes: list) -> None:
        names = {category['name'] for category in self.cats.values()}
        missing = [name for name in classes if name not in names]
        if missing:
            raise AnnotationError(f'{self.annotation_file} has no category {first(missing, 5)} of the data '
                             f"set's {len(classes)} classes, only {first(sorted(names), 5)}; give the data set "
                             'metainfo=dict(classes=...)')
        unused = Counter(self.cats[annotation['category_id']]['name'] for annotation in self.anns.values())
        left_out = {name: number for name, number in unused.items() if name not in set(classes)}
        if left_out:
            print_log(f'{self.annotation_file}: annotations of categories that are no classes of the data set are '
                      f'left out: {first([f"{name} ({number})" for name, number in left_out.items()], 5)}',
                      logger='current', level=logging.WARNING)


def _overlap(x: float, y: float, width: float, height: float, image: dict) -> bool:
    return x < image['width'] and y < image['height'] and x + width > 0 and y + height > 0


class CheckedCocoDataset(CocoDataset):
    """mmdet's `CocoDataset`, reading its file with `CheckedCOCO`. The Runner puts it in place of the original."""

    COCOAPI = CheckedCOCO
