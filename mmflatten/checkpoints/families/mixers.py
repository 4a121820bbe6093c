"""Attentions alone, and BiFormer-STL: BiFormer (rayleizhu), RMT (qhfan) and EfficientViT (mit-han-lab)."""
from mmflatten.checkpoints.families.common import LAST_NORM
from mmflatten.checkpoints.key_tables import Axes, Family, HeadsFirst, Key, Part, affine, batch_norm, single, stacked

_HEAD_WIDTH = ('aggreg.0.1.weight', 'aggregate.1.weight')
_ANGLES = 'angles and rates determined by the settings'


def _heads_first(official: str, ours: str) -> tuple[Key, ...]:
    return (Key((official,), ours, layout=HeadsFirst(squeezed=ours == 'qkv.weight'), context=_HEAD_WIDTH),)


EFFICIENTVIT_ATTENTION = Family('efficientvit_attention', (Part('', '', {'attention': (
    *_heads_first('qkv.conv.weight', 'qkv.weight'), *_heads_first('aggreg.0.0.weight', 'aggregate.0.weight'),
    *_heads_first('aggreg.0.1.weight', 'aggregate.1.weight'),
    *single('proj.conv.weight', 'proj.linear.weight', layout=Axes(4, (2, 3))),
    *batch_norm('proj.norm', 'proj.norm'))}),))

RMT_ATTENTION = Family('rmt_attention', (Part('', '', {'attention': (
    *stacked(('q_proj', 'k_proj', 'v_proj'), 'qkv', (1, 1, 1), 'biases'),
    *affine({'out_proj': 'proj', 'lepe.conv': 'lepe.conv'}))}, dropped=dict.fromkeys(('angle', 'decay'), _ANGLES)),))

_ROUTING = {'qkv.qkv': 'qkv', 'wo': 'proj', 'lepe': 'lepe.conv'}
BIFORMER_ATTENTION = Family('biformer_attention', (Part('', '', {'attention': affine(_ROUTING)}),))

_BLOCK = affine({'norm1': 'attn.norm', 'norm2': 'ffn.norm', 'mlp.0': 'ffn.fn.fc1', 'mlp.2': 'ffn.fn.fc2'})
BIFORMER_STL = Family('biformer_stl', (
    Part('downsample_layers.0', 'backbone.stages.0.embed', {
        'stem': (*affine({'0': 'convs.0'}), *batch_norm('1', 'convs.1'))}),
    Part('downsample_layers.{i}', 'backbone.stages.{i}.embed', {
        'downsampling': (*batch_norm('0', 'convs.0'), *affine({'1': 'convs.1'}))}, first_stage=1),
    Part('stages.{i}.blocks.{j}', 'backbone.stages.{i}.blocks.{j}', {
        'routing block': (*_BLOCK, *affine({f'attn.{name}': f'attn.fn.{ours}' for name, ours in _ROUTING.items()})),
        'softmax block': (*_BLOCK, *single('attn.qkv.weight', 'attn.fn.qkv.weight'),
                          *affine({'attn.proj': 'attn.fn.proj', 'attn.lepe': 'attn.fn.lepe.conv'}))}),
    Part(LAST_NORM.official, LAST_NORM.ours, {'batch norm': batch_norm('', '')}),
    Part('head', 'head.fc', {'linear layer': affine({'': ''})})))
