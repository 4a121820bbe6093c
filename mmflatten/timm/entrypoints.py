"""Entry points through which timm builds the backbones by name.

`flatten_*`, `l2vit_*`, `focal_*`, `ravlt_*`, `mlla_*` and `hvittt_*` are the papers' models.
`mmflatten_*` are this project's versions of their baselines (DeiT, PVT, Swin, CSwin), with softmax
attention in all blocks. Drop path rates are those of the configs; a size without a config has the
rate of the next smaller size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from torch import Tensor, nn

from mmflatten.models.backbones import (
    MLLA,
    RAVLT,
    FLattenCSwin,
    FLattenDeiT,
    FLattenPVT,
    FLattenPVTv2,
    FLattenSwin,
    FocalTransformer,
    HViTTT,
    L2ViT,
)
from mmflatten.models.backbones.base import Backbone
from mmflatten.timm.classifier import Classifier

_FIRST_CONV = {
    FLattenDeiT: 'backbone.embed.projection',
    **dict.fromkeys((L2ViT, RAVLT), 'backbone.stages.0.embed.convs.0'),
    **dict.fromkeys((MLLA, HViTTT), 'backbone.stages.0.embed.conv1.0'),
}
# fields of timm's pretrained_cfg that locate weights
_SOURCES = ('file', 'state_dict', 'url', 'hf_hub_id')


def _sizes(
    family: str, backbone: type[Backbone], drop_path_rates: Mapping[str, float], **kwargs
) -> dict[str, tuple]:
    """Map each model name of a family to its backbone class and arguments."""
    models = {}
    for size, rate in drop_path_rates.items():
        name = f'{family}_{size.replace("-", "_")}'
        models[name] = (backbone, dict(arch=size, drop_path_rate=rate, **kwargs))
    return models


_DEIT = dict(tiny=0.1, small=0.1, base=0.1)
_PVT = dict(tiny=0.1, small=0.1, medium=0.3, large=0.3)
_PVT_V2 = dict(b0=0.1, b1=0.1, b2=0.1, b3=0.3, b4=0.3, b5=0.3)
_SWIN = dict(tiny=0.2, small=0.3, base=0.5)
_CSWIN = dict(tiny=0.2, small=0.4, base=0.5)
_RAVLT = dict(tiny=0.1, small=0.15, base=0.4, large=0.55)
_CSWIN_ARCHS = dict(  # the depths of CSwin differ from those of FLatten-CSwin
    tiny=dict(embed_dims=64, depths=(1, 2, 21, 1), num_heads=(2, 4, 8, 16)),
    small=dict(embed_dims=64, depths=(2, 4, 32, 2), num_heads=(2, 4, 8, 16)),
    base=dict(embed_dims=96, depths=(2, 4, 32, 2), num_heads=(4, 8, 16, 32)),
)


def _softmax_cswin() -> dict[str, tuple]:
    """Map each model name of CSwin to its backbone class and arguments."""
    models = {}
    for size, arch in _CSWIN_ARCHS.items():
        arguments = dict(arch=arch, drop_path_rate=_CSWIN[size], attn_types='SSSS')
        models[f'mmflatten_cswin_{size}'] = (FLattenCSwin, arguments)
    return models


MODELS: dict[str, tuple[type[Backbone], dict]] = {
    **_sizes('flatten_deit', FLattenDeiT, _DEIT),
    **_sizes('flatten_pvt', FLattenPVT, _PVT),
    **_sizes('flatten_pvt_v2', FLattenPVTv2, _PVT_V2),
    **_sizes('flatten_swin', FLattenSwin, _SWIN),
    **_sizes('flatten_cswin', FLattenCSwin, _CSWIN),
    **_sizes('l2vit', L2ViT, {'tiny': 0.1, 'small': 0.3, 'base': 0.4, 'deep-narrow': 0.1}),
    **_sizes('focal', FocalTransformer, dict(_SWIN, large=0.5)),
    **_sizes('ravlt', RAVLT, _RAVLT, last_projection=1024),
    **_sizes('mlla', MLLA, dict(tiny=0.2, small=0.3, base=0.5)),
    **_sizes('hvittt', HViTTT, dict(tiny=0.2, small=0.3, base=0.5), pooled=True),
    **_sizes('mmflatten_deit', FLattenDeiT, _DEIT, attn_types='S'),
    **_sizes('mmflatten_pvt', FLattenPVT, _PVT, attn_types='SSSS', with_cls_token=True),
    **_sizes('mmflatten_pvt_v2', FLattenPVTv2, _PVT_V2, attn_types='SSSS'),
    **_sizes('mmflatten_swin', FLattenSwin, _SWIN, attn_types='SSSS'),
    **_softmax_cswin(),
}


def _default_cfg(name: str, backbone: type[Backbone]) -> dict[str, Any]:
    """Default preprocessing of a model, as in the official evaluation; FLatten's resizes images to
    a square.
    """
    return dict(
        input_size=(3, 224, 224),
        pool_size=(14, 14) if backbone is FLattenDeiT else (7, 7),
        interpolation='bicubic',
        crop_pct=0.9 if name.startswith('mmflatten_cswin_') else 0.875,
        crop_mode='squash' if name.startswith('flatten_') else 'center',
        classifier='head.fc',
        first_conv=_FIRST_CONV.get(backbone, 'backbone.stages.0.embed.projection'),
    )


default_cfgs = generate_default_cfgs(
    {name: _default_cfg(name, backbone) for name, (backbone, _) in MODELS.items()}
)


def _entrypoint(name: str) -> Callable[..., nn.Module]:
    """Create the function that timm calls to build a model; its `kwargs` are arguments of timm and
    the backbone.
    """
    backbone, defaults = MODELS[name]

    def build(pretrained: bool = False, features_only: bool = False, **kwargs) -> nn.Module:
        if features_only or 'out_indices' in kwargs:
            raise ValueError(
                f'features_only, out_indices: the backbone itself returns maps, got {name}. Use '
                f'mmflatten.models.backbones.{backbone.__name__}.'
            )
        kwargs = {**defaults, **kwargs}
        if pretrained:
            _check_source(name, kwargs)
        return build_model_with_cfg(
            Classifier,
            name,
            pretrained,
            pretrained_filter_fn=_check_weights,
            backbone=backbone,
            last=_levels(backbone, kwargs['arch']) - 1,
            **kwargs,
        )

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f'Build a timm model from {backbone.__name__} with {defaults}.'
    return build


def _levels(backbone: type[Backbone], arch: str | Mapping) -> int:
    """Return the number of stages, or of blocks for DeiT."""
    if backbone is FLattenDeiT:
        return arch.get('depth', 12) if isinstance(arch, Mapping) else 12
    depths = arch.get('depths') if isinstance(arch, Mapping) else None
    return len(depths) if isinstance(depths, (list, tuple)) else 4


def _check_source(name: str, kwargs: Mapping) -> None:
    """Reject `pretrained=True` without a file, because timm's hub has no weights of these
    models.
    """
    cfg = kwargs.get('pretrained_cfg') or {}
    overlay = kwargs.get('pretrained_cfg_overlay') or {}
    if isinstance(cfg, str):
        cfg = {}
    elif not isinstance(cfg, Mapping):
        cfg = vars(cfg)
    sources = {**cfg, **overlay}
    if not any(sources.get(name) for name in _SOURCES):
        raise ValueError(
            f'pretrained: expected a file, because no weights of {name} are published for timm, got'
            ' True. Convert official weights with `mmflatten convert` and pass'
            ' pretrained_cfg_overlay=dict(file=FILE), or checkpoint_path=FILE without pretrained.'
        )


def _check_weights(weights: dict[str, Tensor], model: Classifier) -> dict[str, Tensor]:
    """Return the weights if their names match the backbone's; timm ignores some mismatches.

    As in `Backbone`, output norms and stages after the last returned map may be missing or unused.
    timm itself adapts the head to the number of classes.

    Raises:
        ValueError: missing or unexpected backbone weights.
    """
    expected = _names_in_backbone(model.state_dict())
    loaded = _names_in_backbone(weights)
    model.backbone.require_fit(
        sorted(expected - loaded), sorted(loaded - expected), 'the checkpoint'
    )
    return weights


def _names_in_backbone(names: Iterable[str]) -> set[str]:
    prefix = 'backbone.'
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


for _name in MODELS:
    register_model(_entrypoint(_name))
