"""Differences between the levels of a study besides their operators: positions, gates, local terms,
parameters.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmflatten.config import build_model
from mmflatten.console import quiet_libraries
from mmflatten.measure.flops.model_cost import image_shape
from mmflatten.models.attention import TokenMixer
from mmflatten.models.backbones.plain import PlainBackbone
from mmflatten.text import align
from mmflatten_lab.models.factors import gates_of
from mmflatten_lab.studies.configs import config_of
from mmflatten_lab.studies.runs import GRID, StudyRun
from mmflatten_lab.studies.study import Study

TOLERANCE = 0.05  # of the parameters
UNKNOWN = 'unknown'


@dataclass(frozen=True)
class Level:
    """Parts of a model besides the operator of its attention.

    Attributes:
        order: 'yes' if the output depends on the order of the patches, else 'no'; 'unknown' if the
            backbone is not plain.
        places: 'yes' if an attention without its local term depends on the order of its tokens:
            through rotary positions, a table, pooled maps or convolutions.
        gates: kinds of gates of its mixers.
        local: names of the convolutions of the values.
        params: number of parameters.
    """

    order: str
    places: str
    gates: str
    local: str
    params: int

    def differences(self, reference: Level) -> list[str]:
        """Name the differences from a reference, besides the operator."""
        parts = (
            ('order of the patches', self.order, reference.order),
            ('order of the tokens in the attention', self.places, reference.places),
            ('gate', self.gates, reference.gates),
            ('local term', self.local, reference.local),
        )
        found = []
        for what, own, other in parts:
            if own != other:
                found.append(f'{what} ({own or "none"}, {other or "none"} in the reference)')
        more = self.params / reference.params - 1
        if abs(more) > TOLERANCE:
            found.append(f'parameters ({more:+.0%})')
        return found


def inspect_level(cfg: Config) -> Level:
    """Build the model of a config and inspect it."""
    torch.manual_seed(0)
    model = build_model(cfg)
    order, places = _sees_order(getattr(model, 'backbone', None), image_shape(cfg))
    local: set[str] = set()
    for mixer in _mixers(model):
        local.update(mixer.local_terms())
    return Level(
        order=order,
        places=places,
        gates=', '.join(sorted(gates_of(model))),
        local=', '.join(sorted(local)),
        params=sum(parameter.numel() for parameter in model.parameters()),
    )


def _mixers(model: nn.Module) -> list[TokenMixer]:
    return [module for module in model.modules() if isinstance(module, TokenMixer)]


def _sees_order(backbone: nn.Module | None, shape: tuple[int, int]) -> tuple[str, str]:
    """Test by shuffling if the output depends on the order of patches, and an attention on that of
    its tokens.
    """
    if not isinstance(backbone, PlainBackbone):
        return UNKNOWN, UNKNOWN
    # Zeros, such as initial tables, would hide positions.
    for parameter in backbone.eval().parameters():
        nn.init.normal_(parameter, std=0.2)
    image = torch.randn(1, 3, *shape)
    shuffled = _shuffle_patches(image, backbone.embed.stride)
    inputs: dict[TokenMixer, tuple] = {}

    def keep(mixer: TokenMixer, args: tuple, kwargs: dict) -> None:
        inputs.setdefault(mixer, (args, kwargs))

    handles = []
    for mixer in _mixers(backbone):
        handles.append(mixer.register_forward_pre_hook(keep, with_kwargs=True))
    with torch.no_grad():
        before = backbone(image)[-1]
        for handle in handles:
            handle.remove()
        after = backbone(shuffled)[-1]
        if before.dim() == 4:  # a map, whose patches were shuffled
            before = before.mean((2, 3))
            after = after.mean((2, 3))
        places = any(
            _has_positions(mixer, *args, **kwargs) for mixer, (args, kwargs) in inputs.items()
        )
    return _yes_or_no(_differ(before, after)), _yes_or_no(places)


def _shuffle_patches(image: Tensor, side: int) -> Tensor:
    """Shuffle the patches of an image `(1, 3, H, W)`."""
    patches = image.unfold(2, side, side).unfold(3, side, side)
    rows, columns = patches.shape[2:4]
    order = torch.randperm(rows * columns)
    shuffled = patches.flatten(2, 3)[:, :, order].unflatten(2, (rows, columns))
    return shuffled.transpose(3, 4).reshape(image.shape)


def _has_positions(
    mixer: TokenMixer, x: Tensor, hw_shape: tuple[int, int], mask: Tensor | None = None
) -> bool:
    """Return True if shuffled tokens do not give shuffled results when the local terms are 0."""
    for convolution in mixer.local_terms().values():
        for parameter in convolution.parameters():
            parameter.zero_()
    tokens = hw_shape[0] * hw_shape[1]
    order = torch.arange(x.shape[1])
    order[-tokens:] = order[-tokens:][torch.randperm(tokens)]
    return _differ(mixer(x, hw_shape, mask)[:, order], mixer(x[:, order], hw_shape, mask))


def _differ(before: Tensor, after: Tensor) -> bool:
    return bool((before - after).abs().max() > 1e-3 * before.abs().max())


def _yes_or_no(answer: bool) -> str:
    return 'yes' if answer else 'no'


def level_tables(study: Study, runs: Iterable[StudyRun], markdown: bool = False) -> list[str]:
    """Compare the levels of the first factor in each combination of the others where they differ in
    other parts.
    """
    groups: dict[tuple[str, ...], dict[str, StudyRun]] = defaultdict(dict)
    for run in runs:
        if run.mode == GRID and run.levels:
            level, *others = run.levels.values()
            groups[tuple(others)].setdefault(level, run)
    tables = []
    for others, members in groups.items():
        levels = {}
        with quiet_libraries(logging.ERROR):
            for name, run in members.items():
                levels[name] = inspect_level(config_of(run, study.budget))
        reference = next(iter(levels.values()))
        rows = [_row(name, level, reference) for name, level in levels.items()]
        header = [
            ', '.join([next(iter(study.factors)), *others]),
            'depends on order',
            'also in the attention',
            'gate',
            'local term',
            'params (M)',
            'other differences',
        ]
        if any(row[-1] for row in rows):
            tables.append(align(rows, header, {0, 1, 2, 3, 4, 6}, markdown=markdown))
    return tables


def _row(name: str, level: Level, reference: Level) -> list[str]:
    return [
        name,
        level.order,
        level.places,
        level.gates or 'none',
        level.local or 'none',
        f'{level.params / 1e6:.3f}',
        '; '.join(level.differences(reference)),
    ]
