"""Parts and groups of keys that several families share."""

from __future__ import annotations

from mmflatten.checkpoints.key_tables import Key, Part, affine, single

QKV_BIAS = 'qkv_bias'

PROJECTION = affine({'proj': 'projection', 'norm': 'norm'})
PATCH_EMBED = Part('patch_embed', 'backbone.stages.0.embed', {'patch embedding': PROJECTION})
HEAD = Part('head', 'head.fc', {'linear layer': affine({'': ''})})
# The official classifiers normalise only the last stage.
LAST_NORM = Part('norm', 'backbone.norms.{last}', {'norm': affine({'': ''})})
# Tensors as wide as the last stage, which detect missing stages.
WIDTHS = (
    'backbone.stages.{last}.blocks.0.attn.norm.weight',
    'backbone.norms.{last}.weight',
    'head.fc.weight',
)

FFN = affine({'norm2': 'ffn.norm', 'mlp.fc1': 'ffn.fn.fc1', 'mlp.fc2': 'ffn.fn.fc2'})


def attention(mixer: str) -> tuple[Key, ...]:
    """Return keys for the norm and projections of an attention; `mixer` is the name of the mixer in
    a block here.
    """
    return (
        *affine({'norm1': 'attn.norm', 'attn.proj': f'{mixer}.proj'}),
        *affine({'attn.qkv': f'{mixer}.qkv'}, bias_option=QKV_BIAS),
    )


def focused(official: str, mixer: str) -> tuple[Key, ...]:
    """Return the keys of focused linear attention other than its projections."""
    return (
        *single(f'{official}.scale', f'{mixer}.scale'),
        *single(f'{official}.positional_encoding', f'{mixer}.positional_encoding.table'),
        *affine({f'{official}.dwc': f'{mixer}.dwc.conv'}),
    )
