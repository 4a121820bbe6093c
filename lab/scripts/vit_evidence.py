"""Features of a DINOv2 with other attentions on photographs that it did not learn from, for docs/checkpoints.md.

    python lab/scripts/vit_evidence.py vit-s14.pth --out work_dirs/vit_evidence

`vit-s14.pth` is the converted file of lab/scripts/onnx_vit.py. Ten photographs of scikit-image and scikit-learn, cut
into crops of 112 x 112 without labels, are what `mmflatten linearize` learns from, and five others what is measured:
the cosine between a token of the map and the teacher's, after the last norm, averaged over tokens and crops. Prints a
table with the mean and the standard deviation over seeds.
"""
import argparse
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import torch
from linearize_evidence import ATTENTIONS
from onnx_vit import MEAN, STD, photograph_paths

from mmflatten.checkpoints.converted_files import read_weights
from mmflatten.config import build_model
from mmflatten.engine.setup import load_config
from mmflatten.text import align

ROOT = Path(__file__).resolve().parents[2]
HELD_OUT = ('chelsea', 'china', 'coins', 'motorcycle_left', 'rocket')
SIDE, CROPS, TESTED = 112, 16, 8  # pixels, crops of a photograph to learn from and to measure
CONFIG = f"""_base_ = ['{ROOT}/configs/vit/dinov2-s-frozen_linear-probe_8xb128_in1k.py']
model = dict(head=None, backbone=dict(
    arch=dict(_delete_=True, embed_dims=384, depth=12, num_heads=6, patch_size=14, img_size=518, layer_scale=1e-5,
        resize='bicubic'),
    out_type='featmap', output_norm='shared', init_cfg=None))
train_dataloader = dict(batch_size=4, num_workers=0, persistent_workers=False)
test_dataloader = dict(dataset=dict(pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')]))
val_dataloader = val_cfg = val_evaluator = None
default_hooks = dict(logger=dict(interval=1))
randomness = dict(seed=SEED)
"""


def crops(path: Path, number: int) -> list[np.ndarray]:
    """Random squares of a photograph, from a quarter of its shorter side to all of it, resized to `SIDE`."""
    image, random = cv2.imread(str(path)), np.random.default_rng(0)
    found = []
    for share in random.uniform(.25, 1, number):
        side = int(share * min(image.shape[:2]))
        y, x = (random.integers(length - side + 1) for length in image.shape[:2])
        found.append(cv2.resize(image[y:y + side, x:x + side], (SIDE, SIDE), interpolation=cv2.INTER_AREA))
    return found


@torch.no_grad()
def maps(config: Path, checkpoint: Path, images: torch.Tensor) -> torch.Tensor:
    """Maps of the last block after the norm, `(B, C, H, W)`."""
    model = build_model(load_config(str(config))).eval()
    model.load_state_dict(read_weights(checkpoint).state_dict)
    return model.backbone(images)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('checkpoint', type=Path)
    parser.add_argument('--attentions', nargs='+', choices=ATTENTIONS,
                        default=['linear', 'focused', 'efficient', 'agent'])
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--epochs', default='0.5')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/vit_evidence'))
    args = parser.parse_args()
    folder, tested = args.out / 'crops', []
    folder.mkdir(parents=True, exist_ok=True)
    for path in photograph_paths():
        if path.stem in HELD_OUT:
            tested += [(image[..., ::-1] - MEAN) / STD for image in crops(path, TESTED)]
            continue
        for number, image in enumerate(crops(path, CROPS)):
            cv2.imwrite(str(folder / f'{path.stem}_{number}.png'), image)
    images, cosines = torch.tensor(np.stack(tested)).permute(0, 3, 1, 2).float(), {}
    for seed in range(args.seeds):
        config = args.out / f'teacher_{seed}.py'
        config.write_text(CONFIG.replace('SEED', str(seed)))
        expected = maps(config, args.checkpoint, images)
        for attention in args.attentions:
            out = args.out / f'{attention}_{seed}'
            subprocess.run([sys.executable, '-m', 'mmflatten', 'linearize', config, args.checkpoint, '--attention',
                            ATTENTIONS[attention], '--images', folder, '--epochs', args.epochs, '--out', out,
                            '--cfg-options', 'default_hooks.checkpoint.interval=1000'], check=True)
            for step in ('swap', 'align', 'linearized'):
                found = maps(out / 'linearized.py', out / f'{step}.pth', images)
                cosine = torch.cosine_similarity(found, expected).mean()
                cosines.setdefault((attention, step), []).append(float(cosine))
    rows = [[attention, *(f'{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}' for step in (
        'swap', 'align', 'linearized') if (values := cosines[attention, step]))] for attention in args.attentions]
    print(align(rows, ['attention', 'swap', 'align', 'align and distil'], {0}, markdown=True))


if __name__ == '__main__':
    main()
