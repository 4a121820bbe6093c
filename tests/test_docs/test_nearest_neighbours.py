"""The nearest neighbours of docs/checkpoints.md, on generated images with random weights."""

import re
from pathlib import Path

import cv2
import numpy as np
import torch

from mmflatten.config import build_model
from mmflatten.engine.setup import load_config

ROOT = Path(__file__).parents[2]
CONFIG = 'configs/vit/dinov2-s-frozen_linear-probe_8xb128_in1k.py'


def test_nearest_neighbours_are_those_of_class_tokens(tmp_path):
    page = (ROOT / 'docs' / 'checkpoints.md').read_text()
    code = next(
        block
        for block in re.findall(r'```python\n(.*?)```', page, re.DOTALL)
        if 'KNeighbors' in block
    )
    torch.manual_seed(0)
    model = build_model(load_config(str(ROOT / CONFIG))).eval()
    torch.save(model.state_dict(), tmp_path / 'dinov2-s.pth')
    images, labels = [], []
    for number, image in enumerate(
        np.random.default_rng(0).integers(0, 100, (10, 32, 32, 3), np.uint8)
    ):
        images.append(str(tmp_path / f'{number}.png'))
        labels.append(number % 2)
        cv2.imwrite(images[-1], image + 150 * np.uint8(number % 2))
    names = dict(
        train_images=images[:6],
        train_labels=labels[:6],
        test_images=images[6:],
        test_labels=labels[6:],
    )
    code = code.replace(CONFIG, str(ROOT / CONFIG)).replace(
        'checkpoints/dinov2-s.pth', str(tmp_path / 'dinov2-s.pth')
    )
    code, replaced = re.subn(r'Classifier\(\s*20,', 'Classifier(4,', code)
    assert replaced == 1
    exec(code, names)
    assert names['accuracy'] == 1
    tokens = torch.nn.functional.normalize(torch.tensor(names['class_tokens'](images)), dim=1)
    assert tokens.shape == (10, 384)
    cosines, nearest = (tokens[6:] @ tokens[:6].T).topk(4)
    votes = torch.zeros(4, 2).scatter_add(1, torch.tensor(labels)[nearest], (cosines / 0.07).exp())
    found = names['knn'].predict_proba(names['class_tokens'](images[6:]))
    np.testing.assert_allclose(found, votes / votes.sum(1, keepdim=True), rtol=1e-3)
