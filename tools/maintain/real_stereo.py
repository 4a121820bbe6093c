"""A stereo network on two real pairs, beside a constant disparity and OpenCV's block matchers.

    python tools/maintain/real_stereo.py CONFIG CHECKPOINT

Every method is told how far to search. A network that was built for less sees the pair smaller by a whole factor.
Pixels that a matcher leaves open get the median of those it matched.
"""
import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from real_pairs import ALOE_FOLDER, StereoPair, load_aloe, load_motorcycle

from mmflatten.apis import Predictor
from mmflatten.cli.common import tool_parser
from mmflatten.console import command_line
from mmflatten.evaluation.stereo import image_sums
from mmflatten.text_table import align

BLOCK = 15  # pixels, of StereoBM
SEMI_GLOBAL_BLOCK = 5
FRACTION = 16  # OpenCV's disparities are in 16ths of a pixel


def median_disparity(pair: StereoPair) -> np.ndarray:
    """The median of the truth at every pixel: the constant with the least mean error."""
    return np.full(pair.disparity.shape, np.nanmedian(pair.disparity), dtype=np.float32)


def block_matching(pair: StereoPair) -> np.ndarray:
    """OpenCV's StereoBM (H, W), in pixels."""
    return _matched(cv2.StereoBM_create(pair.search, BLOCK), pair, cv2.COLOR_BGR2GRAY)


def semi_global_matching(pair: StereoPair) -> np.ndarray:
    """OpenCV's StereoSGBM (H, W), in pixels, with the penalties that its documentation proposes."""
    area = 3 * SEMI_GLOBAL_BLOCK**2
    matcher = cv2.StereoSGBM_create(0, pair.search, SEMI_GLOBAL_BLOCK, P1=8 * area, P2=32 * area)
    return _matched(matcher, pair)


def _matched(matcher: cv2.StereoMatcher, pair: StereoPair, colour: int | None = None) -> np.ndarray:
    """The matcher's disparities. It leaves out the columns it cannot search, so both pictures are widened before."""
    left, right = (cv2.copyMakeBorder(view, 0, 0, pair.search, 0, cv2.BORDER_REPLICATE)
                   for view in (pair.left, pair.right))
    if colour is not None:
        left, right = cv2.cvtColor(left, colour), cv2.cvtColor(right, colour)
    found = matcher.compute(left, right)[:, pair.search:].astype(np.float32) / FRACTION
    return np.where(found >= 0, found, np.median(found[found >= 0]))


def network(predictor: Predictor, pair: StereoPair) -> np.ndarray:
    """The network's disparity (H, W), in pixels of the pair."""
    height, width = pair.disparity.shape
    factor = -(-pair.search // predictor.cfg.model.max_disp)
    views = [cv2.resize(view[..., ::-1], (width // factor, height // factor), interpolation=cv2.INTER_AREA)
             for view in (pair.left, pair.right)]
    small = predictor(views).pred_disparity.data[0].cpu().numpy()
    return cv2.resize(small, (width, height)) * (width / small.shape[1])


def rows(pair: StereoPair, methods: dict[str, Callable[[StereoPair], np.ndarray]]) -> Iterator[list[str]]:
    """Pair, method, end-point error and D1 over the pixels that have a truth."""
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
                        help="folder with aloeL.jpg, aloeR.jpg and aloeGT.png (default: that of Debian's opencv-doc)")
    args = parser.parse_args(argv)
    predictor = Predictor(args.config, args.checkpoint)
    methods = {'median of the truth': median_disparity, 'OpenCV StereoBM': block_matching,
               'OpenCV StereoSGBM': semi_global_matching,
               Path(args.config).stem: lambda pair: network(predictor, pair)}
    table = list(rows(load_motorcycle(), methods))
    try:
        table += rows(load_aloe(args.aloe), methods)
    except FileNotFoundError as error:
        print(f'without Aloe: {error}', file=sys.stderr)
    print(align(table, ('pair', 'method', 'EPE, px', 'D1, %'), left=(0, 1), markdown=True))


if __name__ == '__main__':
    sys.exit(main())
