"""PSMNet: JiaRenChang/PSMNet `models/stackhourglass.py` and `models/basic.py`."""

from __future__ import annotations

from mmflatten.checkpoints.key_tables import Family, Key, Part, batch_norm, join, single


def _convs(names: dict[str, str]) -> tuple[Key, ...]:
    """Return keys for convolutions with batch norm: official name -> our name, '' for the part
    itself.
    """
    keys: list[Key] = []
    for official, ours in names.items():
        keys += single(join(official, '0.weight'), join(ours, 'conv.weight'))
        keys += batch_norm(join(official, '1'), join(ours, 'bn'))
    return tuple(keys)


def _pair(official: str, ours: str) -> Part:
    """Return the part with two 3-D convolutions."""
    return Part(official, ours, {'pair of convolutions': _convs({'0': '0', '2': '1'})})


def _head(official: str, ours: str) -> Part:
    return Part(
        official, ours, {'classifier': (*_convs({'0': '0'}), *single('2.weight', '1.conv.weight'))}
    )


_BLOCK = _convs({'conv1.0': 'conv1', 'conv2': 'conv2'})
_FEATURES = (
    Part(
        'feature_extraction.firstconv',
        'features.stem',
        {'stem': _convs({'0': '0', '2': '1', '4': '2'})},
    ),
    Part(
        'feature_extraction.layer{i+1}.{j}',
        'features.stages.{i}.{j}',
        {
            'residual block': _BLOCK,
            'residual block with downsampling': (*_BLOCK, *_convs({'downsample': 'downsample'})),
        },
    ),
    Part(
        'feature_extraction.branch{i+1}',
        'features.pyramid.convs.{i}',
        {'pooled branch': _convs({'1': ''})},
    ),
    Part('feature_extraction.lastconv.0', 'features.fusion', {'fusion': _convs({'': ''})}),
    Part(
        'feature_extraction.lastconv.2',
        'features.projection',
        {'projection': single('weight', 'conv.weight')},
    ),
    _pair('dres0', 'aggregation.stem'),
)

_HOURGLASS = _convs(
    {
        'conv1.0': 'down1',
        'conv2': 'conv1',
        'conv3.0': 'down2',
        'conv4.0': 'conv2',
        'conv5': 'up1',
        'conv6': 'up2',
    }
)

PSMNET = Family(
    'psmnet',
    (
        *_FEATURES,
        _pair('dres1', 'aggregation.refine'),
        *(
            Part(f'dres{k + 2}', f'aggregation.hourglasses.{k}', {'hourglass': _HOURGLASS})
            for k in range(3)
        ),
        *(_head(f'classif{k + 1}', f'aggregation.heads.{k}') for k in range(3)),
    ),
    entry='state_dict',
    parallel=True,
)

PSMNET_BASIC = Family(
    'psmnet_basic',
    (
        *_FEATURES,
        *(_pair(f'dres{k + 1}', f'aggregation.blocks.{k}') for k in range(4)),
        _head('classify', 'aggregation.head'),
    ),
    entry='state_dict',
    parallel=True,
)
