"""What a DINOv2 with other attentions keeps, for docs/measurements/dinov2.md.

    python lab/scripts/vit_evidence.py vit-s14.pth --out work_dirs/vit_evidence

`vit-s14.pth` is the converted file of lab/scripts/onnx_vit.py. Ten photographs of scikit-image and
scikit-learn, cut into crops of 112 x 112 without labels, are what `mmflatten linearize` learns
from. Measured of each step:

- cosine: between a token of the map and the teacher's, after the last norm, over crops of five
  other photographs;
- probe: top-1 of a logistic regression on the mean token of 500 images of Fashion-MNIST, on 500
  others;
- mask AP, of the first seed behind both steps: Mask R-CNN on the frozen map, trained on 500 garment
  scenes twice (`--detector`).

Prints a table with the mean and the standard deviation over seeds. Finished steps in `--out` are
not repeated; with other options they are an error of `mmflatten linearize`.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
from linearize_evidence import ATTENTIONS
from onnx_vit import MEAN, STD, photograph_paths
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mmflatten.checkpoints.converted_files import read_weights
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.text import align
from mmflatten_lab.garments.fashion import load_garments

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT = ('chelsea', 'china', 'coins', 'motorcycle_left', 'rocket')
SIDE = 112  # of an image, in pixels
CROPS = 16  # of a photograph to learn from
TESTED = 8  # crops of a photograph to measure with
PROBED = 500  # garments in each half of the probe
MIXERS = {
    **ATTENTIONS,
    'none': 'mmflatten_lab.models.NoAttention',
    'mean': 'mmflatten_lab.models.MeanAttention',
}
TEACHER = 'softmax'
MEASURES = ('cosine', 'probe', 'mask AP')
STEPS = {'swap': 'swap', 'align': 'align', 'linearized': 'align and distil'}
CONFIG = f"""_base_ = ['{ROOT}/configs/vit/dinov2-s-frozen_linear-probe_8xb128_in1k.py']
model = dict(head=None, backbone=dict(
    arch=dict(
        _delete_=True,
        embed_dims=384,
        depth=12,
        num_heads=6,
        patch_size=14,
        img_size=518,
        layer_scale=1e-5,
        resize='bicubic'),
    out_type='featmap', output_norm='shared', init_cfg=None))
train_dataloader = dict(batch_size=4, num_workers=0, persistent_workers=False)
test_dataloader = dict(
    dataset=dict(pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')]))
val_dataloader = val_cfg = val_evaluator = None
default_hooks = dict(logger=dict(interval=1))
randomness = dict(seed=SEED)
"""
DETECTOR_BASE = 'lab/configs/garments/mask-rcnn_dinov2-s-frozen_simple-fpn_garments.py'
DETECTOR = f"""_base_ = ['{ROOT}/{DETECTOR_BASE}']
model = dict(backbone=dict(_delete_=True, **BACKBONE))
"""


def crops(path: Path, number: int) -> list[np.ndarray]:
    """Random squares of a photograph, from a quarter of its shorter side to all of it, resized to
    `SIDE`.
    """
    image = cv2.imread(str(path))
    random = np.random.default_rng(0)
    height, width = image.shape[:2]
    found = []
    for share in random.uniform(0.25, 1, number):
        side = int(share * min(height, width))
        y = random.integers(height - side + 1)
        x = random.integers(width - side + 1)
        square = image[y : y + side, x : x + side]
        found.append(cv2.resize(square, (SIDE, SIDE), interpolation=cv2.INTER_AREA))
    return found


def photographs(folder: Path) -> torch.Tensor:
    """Write the crops to learn from into a folder, and return those of other photographs,
    `(B, 3, SIDE, SIDE)`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tested = []
    for path in photograph_paths():
        if path.stem in HELD_OUT:
            tested += [(image[..., ::-1] - MEAN) / STD for image in crops(path, TESTED)]
            continue
        for number, image in enumerate(crops(path, CROPS)):
            cv2.imwrite(str(folder / f'{path.stem}_{number}.png'), image)
    return torch.tensor(np.stack(tested)).permute(0, 3, 1, 2).float()


@torch.no_grad()
def maps(config: Path, checkpoint: Path, images: torch.Tensor) -> torch.Tensor:
    """Maps of the last block after the norm, `(B, C, H, W)`."""
    model = build_model(load_config(str(config))).eval()
    model.load_state_dict(read_weights(checkpoint).state_dict)
    return torch.cat([model.backbone(part)[0] for part in images.split(50)])


def probe(config: Path, checkpoint: Path) -> float:
    """Top-1 in % of a logistic regression on the mean token of garments."""
    sets = []
    for split in ('train', 'val'):
        garments = load_garments(split)
        grey = np.stack([cv2.resize(image, (SIDE, SIDE)) for image in garments.images[:PROBED]])
        rgb = (grey[..., None].repeat(3, -1) - MEAN) / STD
        images = torch.tensor(rgb).permute(0, 3, 1, 2).float()
        features = maps(config, checkpoint, images).mean((2, 3)).numpy()
        sets.append((features, garments.labels[:PROBED]))
    training, validation = sets
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    return 100 * model.fit(*training).score(*validation)


def detect(config: Path, checkpoint: Path, folder: Path) -> float:
    """Mask AP in % of a detector on the frozen map."""
    backbone = load_config(str(config)).model.backbone.to_dict()
    backbone.update(
        frozen_stages=12,
        init_cfg=dict(type='Pretrained', checkpoint=str(checkpoint), prefix='backbone.'),
    )
    folder.mkdir(exist_ok=True)
    (folder / 'detector.py').write_text(DETECTOR.replace('BACKBONE', repr(backbone)))
    subprocess.run(
        [sys.executable, '-m', 'mmflatten', 'train', folder / 'detector.py', '--work-dir', folder],
        check=True,
    )
    lines = max(folder.glob('*/vis_data/scalars.json')).read_text().splitlines()
    records = map(json.loads, lines)
    return 100 * next(record['coco/segm_mAP'] for record in records if 'coco/segm_mAP' in record)


def measure(
    config: Path,
    checkpoint: Path,
    place: Path,
    images: torch.Tensor,
    expected: torch.Tensor,
    detector: bool,
) -> dict:
    """Cosine, probe and mask AP of a model, kept in the file `place` with the suffix .json."""
    path = place.with_suffix('.json')
    found = json.loads(path.read_text()) if path.exists() else {}
    if 'probe' not in found:
        cosines = torch.cosine_similarity(maps(config, checkpoint, images), expected)
        found['cosine'] = float(cosines.mean())
        found['probe'] = probe(config, checkpoint)
    if detector and 'mask AP' not in found:
        found['mask AP'] = detect(config, checkpoint, place)
    path.write_text(json.dumps(found))
    return found


def table(rows: Mapping[tuple[str, str], Sequence[Mapping[str, float]]]) -> str:
    """Mean of each measure over the seeds, with the standard deviation of several; empty if it was
    not taken.
    """
    cells = []
    for key, items in rows.items():
        row = [*key]
        for name in MEASURES:
            row.append(_mean_and_spread([item[name] for item in items if name in item]))
        cells.append(row)
    return align(cells, ['attention', 'after', *MEASURES], {0, 1}, markdown=True)


def _mean_and_spread(values: Sequence[float]) -> str:
    if not values:
        return ''
    spread = f' ± {np.std(values, ddof=1):.2g}' if len(values) > 1 else ''
    return f'{np.mean(values):.3g}{spread}'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('checkpoint', type=Path)
    parser.add_argument(
        '--attentions',
        nargs='+',
        choices=MIXERS,
        default=['none', 'mean', 'linear', 'focused', 'efficient', 'agent'],
    )
    parser.add_argument('--seeds', type=int, default=2)
    parser.add_argument('--epochs', default='2.5')
    parser.add_argument('--detector', action='store_true')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/vit_evidence'))
    args = parser.parse_args()
    folder = args.out / 'crops'
    images = photographs(folder)
    rows: dict[tuple[str, str], list[dict]] = {}
    for seed in range(args.seeds):
        config = args.out / f'teacher_{seed}.py'
        config.write_text(CONFIG.replace('SEED', str(seed)))
        expected = maps(config, args.checkpoint, images)
        if seed == 0:
            result = measure(
                config=config,
                checkpoint=args.checkpoint,
                place=args.out / TEACHER,
                images=images,
                expected=expected,
                detector=args.detector,
            )
            rows[TEACHER, ''] = [result]
        for attention in args.attentions:
            out = args.out / f'{attention}_{seed}'
            subprocess.run(
                [
                    sys.executable,
                    '-m',
                    'mmflatten',
                    'linearize',
                    config,
                    args.checkpoint,
                    '--attention',
                    MIXERS[attention],
                    '--images',
                    folder,
                    '--epochs',
                    args.epochs,
                    '--out',
                    out,
                    '--cfg-options',
                    'default_hooks.checkpoint.interval=1000',
                ],
                check=True,
            )
            for step, name in STEPS.items():
                result = measure(
                    config=out / 'linearized.py',
                    checkpoint=out / f'{step}.pth',
                    place=out / step,
                    images=images,
                    expected=expected,
                    detector=args.detector and seed == 0 and step == 'linearized',
                )
                rows.setdefault((attention, name), []).append(result)
    print(table(rows))


if __name__ == '__main__':
    main()
