"""MILA (LeapLabTHU/MLLA), ViT^3 and H-ViT^3 (LeapLabTHU/ViTTT), and circulant attention on DeiT."""

from mmflatten.checkpoints.families.common import FFN, HEAD, LAST_NORM
from mmflatten.checkpoints.families.skeletons import vit
from mmflatten.checkpoints.key_tables import (
    Axes,
    Family,
    Key,
    Part,
    affine,
    batch_norm,
    dense,
    single,
)

ROTATIONS = 'angles determined by the map size'


def _stem(*official: str) -> Part:
    """Make the stem of five convolutions with these official names."""
    places = (
        ('conv1.0', 'conv1.1'),
        ('pair.0', 'pair.1'),
        ('pair.3', 'pair.4'),
        ('conv2.0', 'conv2.1'),
        ('conv2.3', 'conv2.4'),
    )
    keys: list[Key] = []
    for name, (conv, norm) in zip(official, places):
        keys += single(f'{name}.conv.weight', f'{conv}.weight')
        keys += batch_norm(f'{name}.norm', norm)
    return Part('patch_embed', 'backbone.stages.0.embed', {'stem': tuple(keys)})


_DOWNSAMPLING = Part(
    'layers.{i-1}.downsample',
    'backbone.stages.{i}.embed',
    {
        'downsampling': (
            *affine(
                {f'conv.{number}.conv': f'convs.{2 * number}' for number in range(3)},
                'biases of downsampling',
            ),
            *batch_norm('conv.2.norm', 'convs.5'),
        )
    },
    first_stage=1,
)

_MILA = (
    _stem('conv1', 'conv2.0', 'conv2.1', 'conv3.0', 'conv3.1'),
    _DOWNSAMPLING,
    Part(
        'layers.{i}.blocks.{j}',
        'backbone.stages.{i}.blocks.{j}',
        {
            'block': (
                *FFN,
                *affine(
                    {
                        'cpe1': 'cpe.fn.conv',
                        'cpe2': 'cpe2.fn.conv',
                        'norm1': 'attn.norm',
                        'in_proj': 'attn.fn.input',
                        'act_proj': 'attn.fn.gate',
                        'out_proj': 'attn.fn.proj',
                        'dwc': 'attn.fn.conv.conv',
                        'attn.qk': 'attn.fn.qkv',
                        'attn.lepe': 'attn.fn.lepe.conv',
                    }
                ),
            )
        },
        dropped={'attn.rope.rotations': ROTATIONS},
    ),
    LAST_NORM,
    HEAD,
)
MILA = Family('mila', _MILA, dense=dense(_MILA), entry='state_dict_ema')

_INNER = (
    *single('attn.w1', 'attn.fn.value_weight', layout=Axes(4, (0,))),
    *single('attn.w2', 'attn.fn.gate_weight', layout=Axes(4, (0,))),
    *single('attn.w3', 'attn.fn.conv_weight'),
)

_CPE = affine({'cpe': 'cpe.fn.conv'})
VITTT = vit('vittt', {'': (*_INNER, *_CPE)}, tokens=())
CIRCULANT_DEIT = vit(
    'circulant_deit', {'': (*affine({'attn.gate.0': 'attn.fn.gate'}), *_CPE)}, tokens=()
)
_H_VITTT = (
    _stem(*(f'conv.{number}' for number in range(5))),
    _DOWNSAMPLING,
    Part(
        'layers.{i}.blocks.{j}',
        'backbone.stages.{i}.blocks.{j}',
        {
            'block': (
                *FFN,
                *_INNER,
                *affine(
                    {
                        'cpe': 'cpe.fn.conv',
                        'norm1': 'attn.norm',
                        'attn.qkv': 'attn.fn.qkv',
                        'attn.proj': 'attn.fn.proj',
                        'mlp.dwc': 'ffn.fn.conv.conv',
                    }
                ),
            )
        },
        dropped={'rope.rotations': ROTATIONS, 'attn.rope.rotations': ROTATIONS},
    ),
    Part('norm', 'backbone.pool_norm', {'batch norm': batch_norm('', '')}),
    HEAD,
)
H_VITTT = Family('h_vittt', _H_VITTT, dense=dense(_H_VITTT))
