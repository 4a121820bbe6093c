"""SLAB (xinghaochen/SLAB): focused linear attention without its function, and progressive norms."""

from dataclasses import dataclass, replace
from itertools import chain

import torch
from torch import Tensor

from mmflatten.checkpoints.families.common import attention
from mmflatten.checkpoints.families.skeletons import (
    POSITIONS,
    PVT_ATTENTION,
    SWIN_MIXER,
    UNUSED_CLASS_TOKEN,
    cswin,
    pvt,
    swin,
    vit,
)
from mmflatten.checkpoints.key_tables import (
    OURS,
    Family,
    Key,
    Part,
    affine,
    batch_norm,
    join,
    single,
)

_UNUSED = 'a scale that no forward pass reads'
_NORMS = ('.norm', '.norms.{last}', '.norms.{i}')  # ends of the names of norms here


def _linear(official: str, mixer: str) -> tuple[Key, ...]:
    return (
        *single(f'{official}.positional_encoding', f'{mixer}.positional_encoding.table'),
        *affine({f'{official}.dwc': f'{mixer}.dwc.conv'}),
    )


@dataclass(frozen=True)
class Counter:
    """Keep the first of two official counters; the second, which counts a warm-up, must be 0 and is
    restored as 0.
    """

    def join(self, pieces: list[Tensor]) -> Tensor:
        count, warm = pieces
        if warm.numel() != 1 or (not warm.is_meta and bool(warm)):
            raise ValueError('expected a finished warm-up, which is 0')
        return count

    def split(self, pieces: list[Tensor]) -> list[Tensor]:
        return [pieces[0].clamp(min=0), torch.zeros_like(pieces[0])]


def _progressive(family: Family, name: str) -> Family:
    """Return a family whose norms are SLAB's, which hold a layer norm, a batch norm and
    counters.
    """
    widths = []
    for width in family.widths:
        for norm in ('norm', 'norms.{last}'):
            width = width.replace(f'{norm}.weight', f'{norm}.layer_norm.weight')
        widths.append(width)
    return replace(
        family,
        name=name,
        parts=tuple(map(_with_progressive_norms, family.parts)),
        dense=tuple(map(_with_progressive_norms, family.dense)),
        widths=tuple(widths),
    )


def _with_progressive_norms(part: Part) -> Part:
    if part.ours is None:
        return part
    kinds = {}
    for kind, keys in part.kinds.items():
        kinds[kind] = tuple(chain.from_iterable(_progressive_keys(part, key) for key in keys))
    return replace(part, kinds=kinds)


def _progressive_keys(part: Part, key: Key) -> tuple[Key, ...]:
    """Return the keys of a progressive norm for the weight of a norm, none for its bias, and other
    keys as they are.
    """
    module, _, leaf = key.names(OURS)[0].rpartition('.')
    is_norm = join(part.ours or '', module).endswith(_NORMS)
    if not is_norm or leaf not in ('weight', 'bias'):
        return (key,)
    if leaf == 'bias':
        return ()
    official = key.official[0].rpartition('.')[0]
    return (
        *affine({join(official, 'norm1'): join(module, 'layer_norm')}),
        *single(join(official, 'norm2.alpha'), join(module, 'alpha')),
        *batch_norm(join(official, 'norm2.bn'), join(module, 'batch_norm')),
        *single(join(official, 'total_step'), join(module, 'steps')),
        Key(
            (join(official, 'iter'), join(official, 'warm')),
            join(module, 'remaining'),
            layout=Counter(),
        ),
    )


SLAB_DEIT = _progressive(
    vit('', {'linear': _linear('attn', 'attn.fn')}, (UNUSED_CLASS_TOKEN, POSITIONS)), 'slab_deit'
)
SLAB_PVT = _progressive(pvt('', (*PVT_ATTENTION, *_linear('attn', 'attn.fn'))), 'slab_pvt')
SLAB_SWIN = _progressive(
    swin('', (*attention(SWIN_MIXER), *_linear('attn', SWIN_MIXER))), 'slab_swin'
)
SLAB_CSWIN = _progressive(
    cswin('', _linear, {f'attns.{k}.scale': _UNUSED for k in range(2)}), 'slab_cswin'
)
