"""L2ViT: ChuanyangZheng/L2ViT `classification/models/l2vit.py`."""

from __future__ import annotations

from mmflatten.checkpoints.families.common import (
    FFN,
    HEAD,
    LAST_NORM,
    PROJECTION,
    WIDTHS,
    attention,
)
from mmflatten.checkpoints.key_tables import Family, Key, Part, affine, batch_norm, single

_CPE = affine({'cpe.0.proj': 'cpe.fn.conv'})
_WINDOW = (*_CPE, *attention('attn.fn.mixer'), *affine({'cpe.1.proj': 'cpe2.fn.conv'}), *FFN)
_LINEAR = (
    *_CPE,
    *attention('attn.fn'),
    *single('attn.temperature', 'attn.fn.temperature'),
    *affine(
        {'norm3': 'lcm.norm', 'local_mp.conv1': 'lcm.fn.conv1', 'local_mp.conv2': 'lcm.fn.conv2'}
    ),
    *batch_norm('local_mp.bn', 'lcm.fn.norm'),
    *FFN,
)

_STEM = (
    *affine({'proj.proj.0': 'convs.0', 'proj.proj.3': 'convs.3', 'norm': 'norm'}),
    *batch_norm('proj.proj.1', 'convs.1'),
    *batch_norm('proj.proj.4', 'convs.4'),
)


def _deep_stem() -> tuple[Key, ...]:
    """Return the keys of a stem with which no model is released. Indices follow its layers."""
    keys = [*affine({'proj.proj.9': 'convs.9', 'norm': 'norm'})]
    for conv in (0, 3, 6):
        keys += single(f'proj.proj.{conv}.weight', f'convs.{conv}.weight')
        keys += batch_norm(f'proj.proj.{conv + 1}', f'convs.{conv + 1}')
    return tuple(keys)


L2VIT = Family(
    'l2vit',
    (
        Part(
            'downsample_layers.0',
            'backbone.stages.0.embed',
            {
                'stem of two convolutions': _STEM,
                'stem of four convolutions': _deep_stem(),
                'patch embedding': PROJECTION,
            },
        ),
        Part(
            'downsample_layers.{i}',
            'backbone.stages.{i}.embed',
            {'downsampling': affine({'proj': 'projection', 'norm': 'input_norm'})},
            first_stage=1,
        ),
        Part(
            'stages.{i}.{j}',
            'backbone.stages.{i}.blocks.{j}',
            {'window block': _WINDOW, 'linear block': _LINEAR},
        ),
        LAST_NORM,
        Part(
            'last_proj',
            'backbone.last_projection',
            {'model without last projection': (), 'last projection': affine({'': ''})},
        ),
        HEAD,
    ),
    widths=WIDTHS[:2],
)
