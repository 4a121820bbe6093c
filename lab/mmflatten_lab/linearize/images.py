"""Images of a folder, without labels."""
from pathlib import Path

from mmengine.dataset import BaseDataset

from mmflatten.data_folders import IMAGE_SUFFIXES
from mmflatten.files import images_in
from mmflatten.registry import DATASETS


@DATASETS.register_module()
class UnlabelledImages(BaseDataset):
    """All images in a folder and its folders.

    Args:
        data_root: the folder.
        kwargs: `pipeline` and others of MMEngine's `BaseDataset`.
    """

    def load_data_list(self) -> list[dict]:
        return [dict(img_path=str(file)) for file in images_of(self.data_root)]


def images_of(folder: str) -> list[Path]:
    """All images in a folder and its folders.

    Raises:
        ValueError: there are none.
    """
    files = images_in(Path(folder), IMAGE_SUFFIXES, '**/*')
    if not files:
        raise ValueError(f'--images: expected a folder with images ({", ".join(IMAGE_SUFFIXES)}), got {folder}.')
    return files
