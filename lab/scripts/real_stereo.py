"""Compare a stereo network with a constant disparity and OpenCV's block matchers on two real pairs.

    python lab/scripts/real_stereo.py CONFIG CHECKPOINT

Motorcycle (Scharstein et al., *High-Resolution Stereo Datasets with Subpixel-Accurate Ground Truth*, GCPR 2014) is in
scikit-image's wheel. Aloe (Scharstein and Pal, *Learning Conditional Random Fields for Stereo*, CVPR 2007) is in
OpenCV's Debian package `opencv-doc`. Both are from Middlebury College.

All methods get the same search range. A network with a smaller range gets the pair scaled down by an integer factor.
Pixels that a block matcher leaves open get the median of the matched pixels.
"""
import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch

from mmflatten.apis import Predictor
from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.datasets.scenes.source import skimage_file
from mmflatten.datasets.stereo.files import decode_image, read_image
from mmflatten.evaluation.stereo import image_sums
from mmflatten.text import align

ALOE_FOLDER = Path('/usr/share/doc/opencv-doc/examples/data')
BLOCK = 15  # of StereoBM, in pixels
SEMI_GLOBAL_BLOCK = 5
FRACTION = 16  # OpenCV's disparities are in 16ths of a pixel


@dataclass(frozen=True, eq=False)
class StereoPair:
    """A rectified pair: `left[y, x]` shows the same point as `right[y, x - disparity[y, x]]`.

    Attributes:
        left, right: (H, W, 3) uint8 BGR.
        disparity: (H, W) float32 in pixels, NaN where it was not measured.
        search: search range of all methods, a multiple of 16 above the largest disparity.
    """

    name: str
    left: np.ndarray
    right: np.ndarray
    disparity: np.ndarray
    search: int


def load_motorcycle() -> StereoPair:
    """Load 500 x 741 pixels with disparities of 7.2 to 59.9 pixels. Raises ImportError without scikit-image."""
    left, right = (read_image(skimage_file(f'motorcycle_{side}.png')) for side in ('left', 'right'))
    disparity = np.load(skimage_file('motorcycle_disp.npz'))['arr_0'].astype(np.float32)
    return StereoPair('Motorcycle', left, right, np.where(np.isfinite(disparity), disparity, np.nan), 64)


def load_aloe(folder: Path = ALOE_FOLDER) -> StereoPair:
    """Load at half size, 555 x 641 pixels with disparities of 21.5 to 105.5 pixels.

    Raises:
        FileNotFoundError: a file is missing in `folder`.
    """
    missing = [name for name in ('aloeL.jpg', 'aloeR.jpg', 'aloeGT.png') if not (folder / name).is_file()]
    if missing:
        raise FileNotFoundError(f'--aloe: {folder / missing[0]} is missing. Install the Debian package opencv-doc.')
    left, right = (cv2.resize(read_image(folder / name), None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
                   for name in ('aloeL.jpg', 'aloeR.jpg'))
    disparity = decode_image(folder / 'aloeGT.png', cv2.IMREAD_GRAYSCALE)[::2, ::2].astype(np.float32)
    return StereoPair('Aloe', left, right, np.where(disparity > 0, disparity / 2, np.nan), 112)


def median_disparity(pair: StereoPair) -> np.ndarray:
    """Return the median of the ground truth at every pixel, the constant with the smallest mean error."""
    return np.full(pair.disparity.shape, np.nanmedian(pair.disparity), dtype=np.float32)


def block_matching(pair: StereoPair) -> np.ndarray:
    """Compute disparities (H, W) in pixels by OpenCV's StereoBM."""
    return _matched(cv2.StereoBM_create(pair.search, BLOCK), pair, cv2.COLOR_BGR2GRAY)


def semi_global_matching(pair: StereoPair) -> np.ndarray:
    """Compute disparities (H, W) in pixels by OpenCV's StereoSGBM, with the penalties of its documentation."""
    area = 3 * SEMI_GLOBAL_BLOCK**2
    matcher = cv2.StereoSGBM_create(0, pair.search, SEMI_GLOBAL_BLOCK, P1=8 * area, P2=32 * area)
    return _matched(matcher, pair)


def _matched(matcher: cv2.StereoMatcher, pair: StereoPair, colour: int | None = None) -> np.ndarray:
    """Compute the disparities of a matcher. It skips columns without a full search range, so both views are padded."""
    left, right = (cv2.copyMakeBorder(view, 0, 0, pair.search, 0, cv2.BORDER_REPLICATE)
                   for view in (pair.left, pair.right))
    if colour is not None:
        left, right = cv2.cvtColor(left, colour), cv2.cvtColor(right, colour)
    found = matcher.compute(left, right)[:, pair.search:].astype(np.float32) / FRACTION
    return np.where(found >= 0, found, np.median(found[found >= 0]))


def network(predictor: Predictor, pair: StereoPair) -> np.ndarray:
    """Compute the disparities (H, W) of a network, in pixels of the pair."""
    height, width = pair.disparity.shape
    factor = -(-pair.search // predictor.cfg.model.max_disp)
    views = [cv2.resize(view[..., ::-1], (width // factor, height // factor), interpolation=cv2.INTER_AREA)
             for view in (pair.left, pair.right)]
    small = predictor(views).pred_disparity.data[0].cpu().numpy()
    return cv2.resize(small, (width, height)) * (width / small.shape[1])


def rows(pair: StereoPair, methods: dict[str, Callable[[StereoPair], np.ndarray]]) -> Iterator[list[str]]:
    """Yield pair, method, end-point error and D1 over the pixels with ground truth."""
    valid = np.isfinite(pair.disparity)
    for name, method in methods.items():
        sums = image_sums(torch.from_numpy(method(pair)[valid]), torch.from_numpy(pair.disparity[valid]), None)
        yield [pair.name, name, f'{sums["error"] / sums["pixels"]:.2f}', f'{100 * sums["d1"] / sums["pixels"]:.1f}']


@command_line
def main(argv: Sequence[str]) -> None:
    parser = tool_parser(__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config')
    parser.add_argument('checkpoint')
    parser.add_argument('--aloe', type=Path, default=ALOE_FOLDER,
                        help="folder with aloeL.jpg, aloeR.jpg and aloeGT.png (default: of Debian's opencv-doc)")
    args = parser.parse_args(argv)
    predictor = Predictor(args.config, args.checkpoint)
    methods = {'median of the true disparity': median_disparity, 'OpenCV StereoBM': block_matching,
               'OpenCV StereoSGBM': semi_global_matching,
               Path(args.config).stem: lambda pair: network(predictor, pair)}
    table = list(rows(load_motorcycle(), methods))
    try:
        table += rows(load_aloe(args.aloe), methods)
    except FileNotFoundError as error:
        print(f'Aloe is skipped: {error}', file=sys.stderr)
    print(align(table, ('pair', 'method', 'EPE, px', 'D1, %'), left=(0, 1), markdown=True))


if __name__ == '__main__':
    sys.exit(main())
