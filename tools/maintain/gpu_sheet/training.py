"""Speed of models with the fused kernels: classifiers, and a detector's training step."""

from __future__ import annotations

import gc
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
import yaml

from mmflatten.measure.speed.launches import profile_call
from mmflatten.measure.speed.memory import peak_memory
from mmflatten.measure.speed.models import (
    DTYPES,
    RunSettings,
    build_from_spec,
    make_call,
    model_subject,
)
from mmflatten.measure.speed.timing import Call, Subject, measure
from mmflatten.ops.linear.kernels import set_kernels_enabled

# Ours, and timm's model of the same layout or, for PVT, of the nearest. None drops paths, as timm's
# do by default.
TWINS = {
    'FLatten-Swin-T': (
        'FLattenSwin:arch=tiny,drop_path_rate=0',
        'timm:swin_tiny_patch4_window7_224',
    ),
    'FLatten-PVT-T': ('FLattenPVT:arch=tiny,drop_path_rate=0', 'timm:pvt_v2_b1'),
    'L2ViT-T': ('L2ViT:arch=tiny,drop_path_rate=0', 'timm:swin_tiny_patch4_window7_224'),
}
_FOCUSED = {
    'FLatten-Swin-T': 'FLattenSwin:arch=tiny,drop_path_rate=0.2',
    'FLatten-PVT-T': 'FLattenPVT:arch=tiny',
    'FLatten-PVTv2-B2': 'FLattenPVTv2:arch=b2',
    'FLatten-CSwin-T': 'FLattenCSwin:arch=tiny',
}
# Each with focused and with softmax attention.
OURS = {name: (spec, f'{spec},attn_types=SSSS') for name, spec in _FOCUSED.items()}
DETECTOR = 'mask-rcnn_flatten-swin-t_fpn_1x_coco'
DEMO = 'mask-rcnn_flatten-swin-nano_fpn_digits'  # for --quick


def switched(call: Call, on: bool) -> Call:
    """Return the call with the kernels turned on or off."""

    def run() -> object:
        with set_kernels_enabled(on):
            return call()

    return run


def classifier_rows(
    name: str, specs: tuple[str, str], settings: RunSettings, rounds: int, graphs: bool = False
) -> list[dict]:
    """Time a classifier under autocast with kernels, and the model to compare with.

    Unless it is compiled, the classifier is timed without kernels, too.

    Args:
        specs: the classifier, and the model to compare with.
        graphs: launch compiled steps as CUDA graphs.
    """
    import torch._inductor.config as inductor

    torch.compiler.reset()  # PyTorch limits how often a function, shared by models, is compiled
    spec, other = specs
    options = {'triton.cudagraphs': True, 'triton.cudagraph_or_error': True} if graphs else {}
    with inductor.patch(options):
        calls = {f'{name}, kernels': switched(model_subject(spec, settings).call, on=True)}
        if settings.compile is None:
            eager = model_subject(spec, settings).call
            calls[f'{name}, eager'] = switched(eager, on=False)
        calls[other] = model_subject(other, settings).call
        subjects = [Subject(label, call, settings.batch) for label, call in calls.items()]
        return _rows(subjects, settings, rounds=rounds, mode='graphs' if graphs else '')


def official_rows(folder: Path, spec: str, settings: RunSettings, rounds: int) -> list[dict]:
    """Time our FLatten-Swin-T, and that of the official code in this folder with its own config."""
    sys.path.insert(0, str(folder))
    config = yaml.safe_load((folder / 'cfgs' / 'flatten_swin_t.yaml').read_text())['MODEL']
    of_config = config['SWIN'] | config['LA']
    arguments = {name.lower(): value for name, value in of_config.items()}
    official = importlib.import_module('models.flatten_swin').FLattenSwinTransformer(
        **arguments,
        img_size=settings.size,
        drop_path_rate=config['DROP_PATH_RATE'],
        focusing_factor=3,
        kernel_size=5,
    )
    images = torch.randn(settings.batch, 3, *settings.size)
    call = make_call(official, official, images, settings)
    subjects = [
        Subject('FLatten-Swin-T', model_subject(spec, settings).call, settings.batch),
        Subject('FLatten-Swin-T, official code', call, settings.batch),
    ]
    return _rows(subjects, settings, rounds)


def detector_rows(spec: str, settings: RunSettings, rounds: int, backend: str) -> list[dict]:
    """Time training steps of Mask R-CNN on noise with random objects.

    The rows are those with and without kernels, and of the compiled model.
    """
    import torch._dynamo.config as dynamo
    from mmdet.testing import demo_mm_inputs
    from mmdet.utils import register_all_modules

    from mmflatten.engine.hooks.training import CompileHook

    register_all_modules()
    torch.manual_seed(0)
    model = build_from_spec(spec, settings.size).to(settings.device).train()
    data = demo_mm_inputs(
        settings.batch,
        (3, *settings.size),
        num_classes=model.roi_head.bbox_head.num_classes,
        with_mask=True,
    )
    data = model.data_preprocessor(data, True)

    def step() -> None:
        with torch.autocast(torch.device(settings.device).type, dtype=DTYPES[settings.dtype]):
            losses, _ = model.parse_losses(model(**data, mode='loss'))
        losses.backward()
        model.zero_grad(set_to_none=True)

    subjects = [
        Subject(f'{spec}, kernels', switched(step, on=True), settings.batch),
        Subject(f'{spec}, eager', switched(step, on=False), settings.batch),
    ]
    rows = _rows(subjects, settings, rounds)
    with dynamo.patch(cache_size_limit=0, fail_on_cache_limit_hit=False):  # the hook sets both
        CompileHook(backend).before_train(SimpleNamespace(model=model))
        compiled = [Subject(f'{spec}, kernels', step, settings.batch)]
        rows += _rows(compiled, settings, rounds=rounds, mode='compiled blocks')
    return rows


def _rows(
    subjects: list[Subject], settings: RunSettings, rounds: int, mode: str = ''
) -> list[dict]:
    all_times = measure(subjects, rounds=rounds, device=settings.device)
    rows = []
    for subject, times in zip(subjects, all_times):
        row = dict(
            model=subject.name,
            call='training step' if settings.train else 'inference',
            dtype=settings.dtype,
            mode=mode or ('compiled' if settings.compile else 'eager'),
            size=list(settings.size),
            batch=subject.batch,
            images_s=subject.batch / sorted(times)[len(times) // 2],
            peak_mib=peak_memory(subject.call, settings.device) / 2**20,
        )
        if torch.device(settings.device).type == 'cuda':
            row |= profile_call(subject.call)._asdict()
        rows.append(row)
    gc.collect()
    return rows
