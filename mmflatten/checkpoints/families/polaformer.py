"""PolaFormer (ZacharyMeng/PolaFormer) on PVT and Swin."""

from mmflatten.checkpoints.families.common import QKV_BIAS
from mmflatten.checkpoints.families.skeletons import SWIN_MIXER, pvt, swin
from mmflatten.checkpoints.key_tables import Halves, Key, affine, single


def _polarity(mixer: str) -> tuple[Key, ...]:
    return (
        *affine(
            {'norm1': 'attn.norm', 'attn.proj': f'{mixer}.proj', 'attn.dwc': f'{mixer}.dwc.conv'}
        ),
        *single('attn.scale', f'{mixer}.scale'),
        *single('attn.power', f'{mixer}.power'),
        *single('attn.positional_encoding', f'{mixer}.positional_encoding.table'),
    )


def _halves(leaf: str, option: str | None = None) -> Key:
    """Return the key of the layers (q, g) and (k, v), which are one layer here."""
    official = (f'attn.qg.{leaf}', f'attn.kv.{leaf}')
    return Key(official, f'attn.fn.qkv.{leaf}', option=option, layout=Halves())


POLAFORMER_PVT = pvt(
    'polaformer_pvt',
    (
        *_polarity('attn.fn'),
        _halves('weight'),
        _halves('bias', option=QKV_BIAS),
    ),
    base='flatten_pvt',
)
POLAFORMER_SWIN = swin(
    'polaformer_swin',
    (*_polarity(SWIN_MIXER), *affine({'attn.qkvg': f'{SWIN_MIXER}.qkv'}, bias_option=QKV_BIAS)),
    base='flatten_swin',
)
