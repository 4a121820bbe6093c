"""SLAB (xinghaochen/SLAB): focused linear attention without its function, and progressive norms."""
from mmflatten.checkpoints.families.common import attention
from mmflatten.checkpoints.families.skeletons import (
    POSITIONS,
    PVT_ATTENTION,
    SWIN_MIXER,
    UNUSED_CLASS_TOKEN,
    cswin,
    plain,
    pvt,
    swin,
)
from mmflatten.checkpoints.key_tables import Key, affine, progressive, single

_UNUSED = 'a scale that no forward pass reads'


def _linear(official: str, mixer: str) -> tuple[Key, ...]:
    return (*single(f'{official}.positional_encoding', f'{mixer}.positional_encoding.table'),
            *affine({f'{official}.dwc': f'{mixer}.dwc.conv'}))


SLAB_DEIT = progressive(plain('', {'linear': _linear('attn', 'attn.fn')}, (UNUSED_CLASS_TOKEN, POSITIONS)), 'slab_deit')
SLAB_PVT = progressive(pvt('', (*PVT_ATTENTION, *_linear('attn', 'attn.fn'))), 'slab_pvt')
SLAB_SWIN = progressive(swin('', (*attention(SWIN_MIXER), *_linear('attn', SWIN_MIXER))), 'slab_swin')
SLAB_CSWIN = progressive(cswin('', _linear, {f'attns.{k}.scale': _UNUSED for k in range(2)}), 'slab_cswin')
