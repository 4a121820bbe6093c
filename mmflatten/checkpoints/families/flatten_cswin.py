"""FLatten-CSwin, including CSwin: LeapLabTHU/FLatten-Transformer `models/flatten_cswin.py`."""
from __future__ import annotations

from mmflatten.checkpoints.families.common import FFN, HEAD, LAST_NORM, QKV_BIAS, WIDTHS, focused
from mmflatten.checkpoints.rules import Family, Key, Part, affine

_BLOCK = (*affine({'norm1': 'attn.norm', 'proj': 'attn.fn.proj'}),
          *affine({'qkv': 'attn.fn.qkv'}, bias_option=QKV_BIAS), *FFN)


def _branches(number: int, linear: bool) -> tuple[Key, ...]:
    """Return keys for the locally enhanced positions (LePE) of each branch and, in linear blocks, its attention."""
    keys: tuple[Key, ...] = ()
    for k in range(number):
        official, ours = f'attns.{k}', f'attn.fn.branches.{k}.mixer'
        keys += affine({f'{official}.get_v': f'{ours}.lepe.conv'})
        keys += focused(official, ours) if linear else ()
    return keys


FLATTEN_CSWIN = Family('flatten_cswin', (
    Part('stage1_conv_embed', 'backbone.stages.0.embed', {'patch embedding': affine({'0': 'projection', '2': 'norm'})}),
    Part('merge{i}', 'backbone.stages.{i}.embed',
         {'downsampling': affine({'conv': 'projection', 'norm': 'norm'})}, first_stage=1),
    Part('stage{i+1}.{j}', 'backbone.stages.{i}.blocks.{j}', {
        f'{"linear" if linear else "softmax"} block of {number} branches': (*_BLOCK, *_branches(number, linear))
        for linear in (True, False) for number in (1, 2)}),
    LAST_NORM,
    HEAD,
), widths=WIDTHS)
