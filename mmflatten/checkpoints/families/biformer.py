"""BiFormer-STL (rayleizhu/BiFormer)."""

from mmflatten.checkpoints.families.common import LAST_NORM
from mmflatten.checkpoints.key_tables import Family, Part, affine, batch_norm, single

_ROUTING = {'qkv.qkv': 'qkv', 'wo': 'proj', 'lepe': 'lepe.conv'}
_BLOCK = affine(
    {'norm1': 'attn.norm', 'norm2': 'ffn.norm', 'mlp.0': 'ffn.fn.fc1', 'mlp.2': 'ffn.fn.fc2'}
)
BIFORMER_STL = Family(
    'biformer_stl',
    (
        Part(
            'downsample_layers.0',
            'backbone.stages.0.embed',
            {'stem': (*affine({'0': 'convs.0'}), *batch_norm('1', 'convs.1'))},
        ),
        Part(
            'downsample_layers.{i}',
            'backbone.stages.{i}.embed',
            {'downsampling': (*batch_norm('0', 'convs.0'), *affine({'1': 'convs.1'}))},
            first_stage=1,
        ),
        Part(
            'stages.{i}.blocks.{j}',
            'backbone.stages.{i}.blocks.{j}',
            {
                'routing block': (
                    *_BLOCK,
                    *affine({f'attn.{name}': f'attn.fn.{ours}' for name, ours in _ROUTING.items()}),
                ),
                'softmax block': (
                    *_BLOCK,
                    *single('attn.qkv.weight', 'attn.fn.qkv.weight'),
                    *affine({'attn.proj': 'attn.fn.proj', 'attn.lepe': 'attn.fn.lepe.conv'}),
                ),
            },
        ),
        Part(LAST_NORM.official, LAST_NORM.ours, {'batch norm': batch_norm('', '')}),
        Part('head', 'head.fc', {'linear layer': affine({'': ''})}),
    ),
)
