"""Agent attention (LeapLabTHU/Agent-Attention) and InLine attention (LeapLabTHU/InLine)."""

from mmflatten.checkpoints.families.common import attention
from mmflatten.checkpoints.families.skeletons import (
    PVT_ATTENTION,
    SWIN_MIXER,
    cswin,
    pvt,
    swin,
    vit,
)
from mmflatten.checkpoints.key_tables import Axes, Key, affine, single


def agent(official: str, mixer: str) -> tuple[Key, ...]:
    """Return the keys of the biases between queries, agents and keys."""
    tables = {
        'an_bias': ('key_bias.grid', None),
        'na_bias': ('query_bias.grid', None),
        'ah_bias': ('key_bias.rows', Axes(5, (0,))),
        'aw_bias': ('key_bias.cols', Axes(5, (0,))),
        'ha_bias': ('query_bias.rows', Axes(5, (0,), (0, 3, 1, 2))),
        'wa_bias': ('query_bias.cols', Axes(5, (0,), (0, 3, 1, 2))),
    }
    keys: list[Key] = []
    for name, (ours, layout) in tables.items():
        keys += single(f'{official}.{name}', f'{mixer}.{ours}', layout=layout)
    return tuple(keys)


def inline(official: str, mixer: str) -> tuple[Key, ...]:
    """Return the keys of the convolution whose weights come from the mean of the tokens."""
    return affine(
        {f'{official}.residual.{number}': f'{mixer}.dwc.weights.{number}' for number in (0, 2)}
    )


_CONV = affine({'attn.dwc': 'attn.fn.dwc.conv'})
_CLASS_TOKEN = (
    *single('attn.ac_bias', 'attn.fn.key_bias.prefix', layout=Axes(4, (0,))),
    *single('attn.ca_bias', 'attn.fn.query_bias.prefix', layout=Axes(4, (0,), (0, 2, 1))),
)

AGENT_DEIT = vit(
    'agent_deit',
    {'softmax': (), 'agent': (*agent('attn', 'attn.fn'), *_CLASS_TOKEN, *_CONV)},
    base='vit',
)
AGENT_PVT = pvt(
    'agent_pvt', (*PVT_ATTENTION, *agent('attn', 'attn.fn'), *_CONV), base='flatten_pvt'
)
AGENT_SWIN = swin(
    'agent_swin',
    (
        *attention(SWIN_MIXER),
        *agent('attn', SWIN_MIXER),
        *affine({'attn.dwc': f'{SWIN_MIXER}.dwc.conv'}),
    ),
    base='flatten_swin',
)
AGENT_CSWIN = cswin('agent_cswin', agent, base='flatten_cswin')

INLINE_DEIT = vit('inline_deit', {'softmax': (), 'linear': inline('attn', 'attn.fn')}, base='vit')
INLINE_PVT = pvt('inline_pvt', (*PVT_ATTENTION, *inline('attn', 'attn.fn')), base='flatten_pvt')
INLINE_SWIN = swin(
    'inline_swin', (*attention(SWIN_MIXER), *inline('attn', SWIN_MIXER)), base='flatten_swin'
)
INLINE_CSWIN = cswin('inline_cswin', inline, base='flatten_cswin')
