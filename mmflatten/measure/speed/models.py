"""Models to time, built from the command line."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from mmflatten import config
from mmflatten.measure.flops.model_cost import count_parameters, default_shape, read_model_config
from mmflatten.measure.speed.timing import Subject
from mmflatten.models import backbones
from mmflatten.models.backbones.base import image_bands
from mmflatten.models.backbones.plain import PlainBackbone
from mmflatten.tasks import task_of_model

TIMM_PREFIX = 'timm:'
DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'fp16': torch.float16}
NUM_CLASSES = 1000

REFERENCE = 'timm:swin_tiny_patch4_window7_224'
ZOO = {
    'FLatten-Swin-T': 'FLattenSwin:arch=tiny',
    'FLatten-PVT-T': 'FLattenPVT:arch=tiny',
    'FLatten-PVTv2-B2': 'FLattenPVTv2:arch=b2',
    'FLatten-CSwin-T': 'FLattenCSwin:arch=tiny',
    'L2ViT-T': 'L2ViT:arch=tiny',
    'Focal-T': 'FocalTransformer:arch=tiny',
    'DeiT-T': 'FLattenDeiT:arch=tiny,attn_types=S',
}


@dataclass(frozen=True)
class RunSettings:
    """Settings of a measurement."""

    batch: int = 8
    size: tuple[int, int] = (224, 224)  # (H, W) of the images
    dtype: str = 'fp32'  # a key of `DTYPES`; half precision means autocast
    device: str = 'cpu'
    train: bool = False  # a forward and a backward pass, without an optimizer
    # backend of `torch.compile`; None is eager code
    compile: str | Callable[..., Any] | None = None


def model_subject(spec: str, settings: RunSettings, name: str | None = None) -> Subject:
    """Build a model and prepare it for timing; `spec` is that of `build_from_spec`."""
    torch.manual_seed(0)
    model = build_from_spec(spec, settings.size)
    task = task_of_model(model)
    if settings.train and task is not None and not task.trains_on_outputs:
        raise ValueError(
            f'--train: {task.name} needs annotated images, got {spec}. Leave out --train.'
        )
    forward = model if task is None else partial(task.predict, model)
    images = torch.randn(settings.batch, image_bands(model), *settings.size)
    call = make_call(model=model, forward=forward, inputs=images, settings=settings)
    if name is None:
        name = Path(spec).stem if spec.endswith('.py') else spec
    return Subject(name=name, call=call, batch=settings.batch, params=count_parameters(model))


@contextlib.contextmanager
def compiler_options(settings: RunSettings) -> Iterator[None]:
    """Set the options of the compiler for compiled models; nothing for eager ones."""
    if settings.compile is None:
        yield
        return
    import torch._inductor.config as inductor

    # Models share the code of their classes, which Dynamo compiles at most 8 times by default.
    limit = torch._dynamo.config.patch(cache_size_limit=1024)
    # Inductor packs frozen weights for the processor's matrix products.
    frozen = inductor.patch(freezing=not settings.train)
    with limit, frozen:
        yield


def make_call(
    model: nn.Module, forward: Callable[[Tensor], Any], inputs: Tensor, settings: RunSettings
) -> Callable[[], Any]:
    """Move a model to its device and return a function that runs `forward(inputs)` once."""
    model.train(settings.train).to(settings.device)
    inputs = inputs.to(settings.device)
    if settings.compile is not None:
        forward = torch.compile(forward, backend=settings.compile)
        if inputs.device.type == 'cpu' and not settings.train:
            # With a dynamic batch size Inductor uses oneDNN's products, which include GELU, instead
            # of MKL's.
            torch._dynamo.maybe_mark_dynamic(inputs, 0)
    autocast = partial(
        torch.autocast,
        device_type=torch.device(settings.device).type,
        dtype=DTYPES[settings.dtype],
        enabled=settings.dtype != 'fp32',
    )

    def infer() -> Any:
        with torch.inference_mode(), autocast():
            return forward(inputs)

    def train() -> None:
        with autocast():
            outputs = [leaf for leaf in tree_leaves(forward(inputs)) if isinstance(leaf, Tensor)]
            loss = sum(output.float().mean() for output in outputs)
        loss.backward()
        model.zero_grad(set_to_none=True)

    return train if settings.train else infer


def build_from_spec(spec: str, size: tuple[int, int]) -> nn.Module:
    """Build a model with random weights on the CPU, for images of `size` (H, W).

    `spec` is a config file, 'timm:NAME', or a backbone with arguments, such as
    'FLattenSwin:arch=tiny', to which average pooling and a linear layer are added.
    """
    if spec.startswith(TIMM_PREFIX):
        return _timm_model(spec.removeprefix(TIMM_PREFIX), size)
    if is_config(spec):
        return config.build_model(read_model_config(spec))
    name, arguments = parse_spec(spec)
    if name not in backbones.__all__:
        raise ValueError(
            f'{spec}: expected a config, timm:NAME or one of {", ".join(backbones.__all__)}, '
            f'got {name}.'
        )
    cls = getattr(backbones, name)
    # A classifier needs only the last map, which a plain backbone returns by default.
    if not issubclass(cls, PlainBackbone):
        arguments.setdefault('out_indices', (3,))
    try:
        return PooledBackbone(cls(**arguments))
    except TypeError as error:
        raise ValueError(f'{name}: invalid arguments: {error}') from error


class PooledBackbone(nn.Module):
    """Backbone, mean over its last map, and a linear layer."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(backbone.out_channels[-1], NUM_CLASSES)

    def forward(self, image_B3HW: Tensor) -> Tensor:
        features = self.backbone(image_B3HW)[-1]
        return self.head(features.mean((2, 3)) if features.dim() == 4 else features)


def _timm_model(name: str, size: tuple[int, int]) -> nn.Module:
    import timm

    model = timm.create_model(name, pretrained=False)
    cfg = model.pretrained_cfg
    if cfg.get('fixed_input_size') and tuple(cfg['input_size'][1:]) != size:
        model = timm.create_model(name, pretrained=False, img_size=size)
    return model


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """Parse `'FLattenSwin:arch=tiny,linear_sr_ratios=(1, 1)'` into a name and arguments; a bare
    word is a string.
    """
    name, _, arguments = spec.partition(':')
    try:
        return name, _literal(ast.parse(f'dict({arguments})', mode='eval').body)
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f'{spec}: cannot parse the arguments, got ({arguments}). Write NAME:key=value,key=value'
            ' with words, numbers, (tuples) and dict(key=value); quote other text.'
        ) from error


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(map(_literal, node.elts))
    if isinstance(node, ast.Call) and ast.unparse(node.func) == 'dict' and not node.args:
        return {keyword.arg: _literal(keyword.value) for keyword in node.keywords}
    return ast.literal_eval(node)


def is_config(spec: str) -> bool:
    """Return True for a config file and for the name of a config of the package."""
    return spec.endswith('.py') or spec in config.library()


def default_size(specs: Sequence[str]) -> tuple[int, int]:
    """Return (H, W) of the images of all configs among the models if they agree, else 224 x 224."""
    sizes = {default_shape(read_model_config(spec)) for spec in specs if is_config(spec)}
    return sizes.pop() if len(sizes) == 1 else RunSettings.size
