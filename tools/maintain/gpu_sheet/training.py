"""Models with the fused kernels: images per second of classifiers, a detector's training step, and the demo."""
from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.models import DTYPES, RunSettings, build_model, model_subject
from mmflatten.measure.speed.timing import Call, Subject, measure
from mmflatten.ops.kernels import set_kernels_enabled

ROOT = Path(__file__).resolve().parents[3]
TWINS = {  # ours, and timm's model of the same layout or, for PVT, of the nearest
    'FLatten-Swin-T': ('FLattenSwin:arch=tiny', 'timm:swin_tiny_patch4_window7_224'),
    'FLatten-PVT-T': ('FLattenPVT:arch=tiny', 'timm:pvt_v2_b1'),
    'L2ViT-T': ('L2ViT:arch=tiny', 'timm:swin_tiny_patch4_window7_224'),
}
LARGE = {name: (spec, f'{spec},attn_types=SSSS') for name, spec in {  # focused and softmax attention
    'FLatten-Swin-T': 'FLattenSwin:arch=tiny', 'FLatten-PVT-T': 'FLattenPVT:arch=tiny',
    'FLatten-PVTv2-B2': 'FLattenPVTv2:arch=b2', 'FLatten-CSwin-T': 'FLattenCSwin:arch=tiny'}.items()}
DETECTOR = 'mask-rcnn_flatten-swin-t_fpn_1x_coco'
DEMO = ROOT / 'configs' / 'digits' / 'mask-rcnn_flatten-swin-nano_fpn_digits.py'


def switched(call: Call, on: bool) -> Call:
    """Return the call with the kernels turned on or off."""
    def run() -> object:
        with set_kernels_enabled(on):
            return call()

    return run


def classifier_rows(name: str, specs: tuple[str, str], settings: RunSettings, rounds: int) -> list[dict]:
    """Time a classifier under autocast: with kernels, without them, and the model that it is compared with."""
    torch.compiler.reset()  # PyTorch stops compiling a function again that many models call
    ours, twin = specs
    subjects = [(f'{name}, {"kernels" if on else "eager"}', switched(model_subject(ours, settings).call, on))
                for on in (True, False)]
    subjects.append((twin, model_subject(twin, settings).call))
    return _rows([Subject(label, call, settings.batch) for label, call in subjects], settings, rounds)


def detector_rows(spec: str, settings: RunSettings, rounds: int) -> list[dict]:
    """Time training steps of Mask R-CNN on noise with random objects, with and without the kernels."""
    from mmdet.testing import demo_mm_inputs
    from mmdet.utils import register_all_modules
    register_all_modules()
    torch.manual_seed(0)
    model = build_model(spec, settings.size).to(settings.device).train()
    data = demo_mm_inputs(settings.batch, (3, *settings.size), num_classes=model.roi_head.bbox_head.num_classes,
                          with_mask=True)
    data = model.data_preprocessor(data, True)

    def step() -> None:
        with torch.autocast(torch.device(settings.device).type, dtype=DTYPES[settings.dtype]):
            losses, _ = model.parse_losses(model(**data, mode='loss'))
        losses.backward()
        model.zero_grad(set_to_none=True)

    subjects = [Subject(f'{spec}, {name}', switched(step, on), settings.batch)
                for name, on in (('kernels', True), ('eager', False))]
    return _rows(subjects, settings, rounds)


def demo_rows(device: str, quick: bool, folder: Path, end: float) -> list[dict]:
    """Train the demo's detector in bfloat16 in a new process.

    A repeated call resumes a training that was not done at `end`, a time of `time.monotonic`; the seconds are those of
    the last call.
    """
    from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
    from mmflatten.results.curves import read_scalars
    folder = folder / ('rehearsed_demo' if quick else 'demo')
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / 'digits'
    if not (data / 'annotations').is_dir():
        build_scenes(data, SceneOptions(train=4, val=2, size=64, seed=0) if quick else SceneOptions())
    options = [f'{split}_dataloader.dataset.data_root={data}' for split in ('train', 'val', 'test')] + [
        f'{split}_evaluator.ann_file={data / "annotations" / "instances_val.json"}' for split in ('val', 'test')]
    if quick:
        options += ['train_cfg.max_epochs=1', 'train_dataloader.batch_size=2', 'train_dataloader.num_workers=0',
                    'train_dataloader.persistent_workers=False']
    visible = {'CUDA_VISIBLE_DEVICES': ''} if device == 'cpu' else {}
    start = time.monotonic()
    command = [sys.executable, '-m', 'mmflatten', 'train', DEMO, '--work-dir', folder / 'training', '--resume',
               '--amp', 'bfloat16', *(['--no-validate'] if quick else []), '--cfg-options', *options]
    process = subprocess.run(command, cwd=ROOT, env={**os.environ, **visible}, capture_output=True, text=True,
                             timeout=max(1, end - start))
    ok = process.returncode == 0
    output = '' if ok else (process.stderr or process.stdout)[-1500:]
    records = read_scalars(folder / 'training') if ok else []
    scores = next((record for record in reversed(records) if 'coco/bbox_mAP' in record), {})
    return [dict(seconds=time.monotonic() - start, ok=ok, output=output, box_map=scores.get('coco/bbox_mAP'),
                 mask_map=scores.get('coco/segm_mAP'))]


def _rows(subjects: list[Subject], settings: RunSettings, rounds: int) -> list[dict]:
    rows, common = [], dict(call='training step' if settings.train else 'inference', dtype=settings.dtype,
                            compiled=settings.compile is not None, size=list(settings.size))
    for subject, times in zip(subjects, measure(subjects, rounds=rounds, device=settings.device)):
        median = sorted(times)[len(times) // 2]
        rows.append(dict(model=subject.name, **common, batch=subject.batch, images_s=subject.batch / median,
                         peak_mib=peak_memory(subject.call, settings.device) / 2 ** 20))
    gc.collect()
    return rows
