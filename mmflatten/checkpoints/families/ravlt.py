"""Families on the RAVLT backbone: RALA and MALA (qhfan), PolaFormer++ and NaLaFormer."""

from mmflatten.checkpoints.key_tables import (
    Axes,
    Family,
    Key,
    Part,
    Pointwise,
    Stack,
    affine,
    batch_norm,
    dense,
    single,
)

# official 1x1 convolutions that are linear layers here, and linear layers
_CONV, _LINEAR = Axes(4, (2, 3)), Axes(2)
_NORMS = (
    *affine(
        {
            'norm1.norm': 'attn.norm',
            'norm2.norm': 'ffn.norm',
            'ffn.dwconv': 'ffn.fn.conv.conv',
            'attn.lepe': 'attn.fn.lepe.conv',
        }
    ),
)
_SCALES = (
    *single('gamma_1', 'attn.layer_scale', option='layer scale', layout=Axes(4, (0, 2, 3))),
    *single('gamma_2', 'ffn.layer_scale', option='layer scale', layout=Axes(4, (0, 2, 3))),
)
_FFN = {'ffn.fc1': 'ffn.fn.fc1', 'ffn.fc2': 'ffn.fn.fc2'}
_POSITION = affine({'pos': 'cpe.fn.conv'})
_TWO_POSITIONS = affine({'cpe1': 'cpe.fn.conv', 'cpe2': 'cpe2.fn.conv'})


def _family(name: str, blocks: dict[str, tuple[Key, ...]], projection: tuple[Key, ...]) -> Family:
    """Make a family on RAVLT with these kinds of blocks and this projection before the head."""
    convs: list[Key] = []
    for number in (0, 3, 6, 9):
        convs += affine({f'proj.{number}': f'convs.{number}'}, 'biases of the stem')
        convs += batch_norm(f'proj.{number + 1}', f'convs.{number + 1}')
    parts = (
        Part('patch_embed', 'backbone.stages.0.embed', {'stem': tuple(convs)}),
        Part(
            'layers.{i-1}.downsample',
            'backbone.stages.{i}.embed',
            {
                'downsampling': (
                    *affine({'reduction': 'convs.0'}, 'biases of downsampling'),
                    *batch_norm('norm', 'convs.1'),
                )
            },
            first_stage=1,
        ),
        *(
            Part(f'layers.{{i}}.{angle}', None, {'angles': single('angle', '')})
            for angle in ('RoPE', 'RoPE_linear')
        ),
        Part('layers.{i}.blocks.{j}', 'backbone.stages.{i}.blocks.{j}', blocks),
        Part('proj', 'backbone.last_projection.0', {'projection': projection}),
        Part('norm', 'backbone.last_projection.1', {'batch norm': batch_norm('', '')}),
        Part('head', 'head.fc', {'linear layer': affine({'': ''}, layout=_CONV)}),
    )
    return Family(name, parts, dense=dense(parts, 'extra_norms.{i}.norm'))


_POINTWISE = {
    'block': (
        *_NORMS,
        *_SCALES,
        *_POSITION,
        *affine({**_FFN, 'attn.qkvo': 'attn.fn.qkv', 'attn.proj': 'attn.fn.proj'}, layout=_CONV),
    )
}
RALA, MALA = (_family(name, _POINTWISE, affine({'': ''})) for name in ('rala', 'mala'))

_LINEAR_LAYERS = (*_NORMS, *_SCALES, *affine(_FFN, layout=_LINEAR))
POLAFORMERPP = _family(
    'polaformerpp',
    {
        'softmax block': (
            *_LINEAR_LAYERS,
            *_POSITION,
            *affine({'attn.qkvo': 'attn.fn.qkv', 'attn.proj': 'attn.fn.proj'}),
        ),
        'linear block': (
            *_LINEAR_LAYERS,
            *_POSITION,
            *affine({'attn.qkvg': 'attn.fn.qkv', 'attn.proj': 'attn.fn.proj'}),
            Key(('attn.s1', 'attn.s2'), 'attn.fn.scales', layout=Stack()),
        ),
    },
    affine({'': ''}),
)
NALAFORMER = _family(
    'nalaformer',
    {
        'block': (
            *_LINEAR_LAYERS,
            *_TWO_POSITIONS,
            *affine(
                {
                    'attn.qkvg': 'attn.fn.qkv',
                    'attn.out_proj': 'attn.fn.proj',
                    'attn.ln': 'attn.fn.norm',
                }
            ),
        )
    },
    affine({'': ''}, layout=Pointwise()),
)
