"""Replace the attention in blocks of a trained model, and copy the weights that both models
have.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor, nn

from mmflatten.config import build_model
from mmflatten.console import quiet_libraries
from mmflatten.measure.flops.model_cost import image_shape
from mmflatten.models.attention import CrossShapedAttention, GatedMixer, TokenMixer
from mmflatten.models.backbones.letters import block_letters, parse_attn_types
from mmflatten.models.layers import Block

RESERVED = 'LMSW'  # of the families
# biases with which a gate, and its SiLU, multiplies by 1
OPEN_GATE = 1.0
OPEN_SILU_GATE = 1.2784645


def blocks_of(model: nn.Module) -> dict[str, Block]:
    """Blocks with an attention, by their names in the backbone, from the first to the last.

    Raises:
        ValueError: the attention of the backbone's blocks cannot be chosen.
    """
    backbone = getattr(model, 'backbone', None)
    found = {}
    if isinstance(backbone, nn.Module):
        for name, module in backbone.named_modules():
            if isinstance(module, Block) and hasattr(module, 'attn'):
                found[name] = module
    if not found or not _has_letters(backbone):
        raise ValueError(
            'model.backbone: expected one whose blocks have letters (ViT, FLattenDeiT, FLattenPVT,'
            f' FLattenSwin, FLattenCSwin, ...), got {type(backbone).__name__}.'
        )
    return found


def _has_letters(backbone: nn.Module) -> bool:
    return {'attn_types', 'mixers'} <= set(inspect.signature(type(backbone)).parameters)


def letters_of(cfg: Config, model: nn.Module) -> list[str]:
    """Letters of the blocks of each stage. Stages that are not built keep the letters of the
    config.
    """
    backbone, settings = model.backbone, cfg.model.backbone
    known = inspect.signature(type(backbone)).parameters['attn_types'].default
    written = settings.get('attn_types', known)
    if hasattr(backbone, 'blocks'):
        if not backbone.is_whole:
            raise ValueError(
                'model.backbone.out_indices: expected the last block among them, got '
                f'{settings.get("out_indices")}. Add it, or shorten arch.depth.'
            )
        return [block_letters(written, written, len(backbone.blocks))]
    stages = list(written.rstrip('0123456789') if isinstance(written, str) else written)
    depths = [len(stage.blocks) for stage in backbone.stages]
    depths += [len(letters) for letters in stages[len(depths) :]]
    return parse_attn_types(written, depths, dict.fromkeys(ascii_uppercase, {}))


def swapped_config(
    cfg: Config, model: nn.Module, attention: Mapping[str, Any], chosen: Sequence[int]
) -> Config:
    """Config of the model with another attention in the chosen blocks, which are counted from 0
    over all stages.
    """
    letters = letters_of(cfg, model)
    settings = cfg.model.backbone
    taken = {*''.join(letters), *(settings.get('mixers') or {}), *RESERVED}
    letter = next(name for name in ascii_uppercase if name not in taken)
    stages = []
    block = 0
    for stage in letters:
        new = ''
        for old in stage:
            new += letter if block in chosen else old
            block += 1
        stages.append(new)
    swapped = copy.deepcopy(cfg)
    backbone = swapped.model.backbone
    backbone.attn_types = stages[0] if hasattr(model.backbone, 'blocks') else stages
    backbone.mixers = {**(backbone.get('mixers') or {}), letter: dict(attention)}
    return swapped


def build_swapped(cfg: Config, teacher: nn.Module, chosen: Sequence[int]) -> nn.Module:
    """Build the model of `swapped_config` with the weights of the teacher, and run it once as a
    check.

    Raises:
        ValueError: the attention cannot be used in these blocks.
    """
    torch.manual_seed((cfg.get('randomness') or {}).get('seed') or 0)
    cfg = copy.deepcopy(cfg)
    for part in (cfg.model, cfg.model.backbone):
        part.pop('init_cfg', None)  # weights that the teacher started from
    try:
        student = build_model(cfg)
        with quiet_libraries():
            student.init_weights()
        copy_weights(teacher, student, chosen)
        with torch.no_grad():
            student.eval().backbone(torch.zeros(1, 3, *image_shape(cfg)))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f'--attention: cannot be used in these blocks: {" ".join(str(error).split())}'
        ) from error
    return student


@torch.no_grad()
def copy_weights(teacher: nn.Module, student: nn.Module, chosen: Sequence[int]) -> list[str]:
    """Copy the teacher's weights. Additional parts of the new attention start as identities or
    zeros where possible.

    New convolutions of the values, or their last layers, are set to 0, and new gates to 1. The
    first rows of `qkv` project queries, keys and values; further rows are new. Other new weights
    keep their initial values.

    Returns:
        Names of the weights that the teacher does not have.
    """
    new = _copy_known(teacher, student)
    blocks = list(blocks_of(student).items())
    for number in chosen:
        name, block = blocks[number]
        for path, part in block.attn.named_modules(prefix=f'backbone.{name}.attn'):
            if isinstance(part, TokenMixer):
                _close_local_terms(part, path, new)
            mixer = part.branches[0].mixer if isinstance(part, CrossShapedAttention) else part
            if isinstance(mixer, GatedMixer) and mixer.gated and f'{path}.qkv.bias' in new:
                _open_gate(part.qkv, OPEN_GATE if mixer.norm is None else OPEN_SILU_GATE)
    return new


def _copy_known(teacher: nn.Module, student: nn.Module) -> list[str]:
    """Copy the weights that both models have. Returns the names of the others."""
    given = teacher.state_dict()
    new = []
    for name, value in student.state_dict().items():
        old = given.get(name)
        if old is not None and old.shape == value.shape:
            value.copy_(old)
            continue
        new.append(name)
        if old is not None and '.qkv.' in name and _has_more_rows(value, old):
            value[: len(old)].copy_(old)
    return new


def _has_more_rows(value: Tensor, old: Tensor) -> bool:
    return value.shape[1:] == old.shape[1:] and len(value) > len(old)


def _close_local_terms(mixer: TokenMixer, path: str, new: Sequence[str]) -> None:
    """Set the new convolutions of the values, or their last layers, to 0."""
    for name, convolution in mixer.local_terms().items():
        # A layer before one of zeros keeps its weights, without which neither would learn.
        kept = set()
        for layers in convolution.modules():
            if isinstance(layers, nn.Sequential):
                kept.update(map(id, layers[:-1].parameters()))
        for key, parameter in convolution.named_parameters(prefix=f'{path}.{name}'):
            if key in new and id(parameter) not in kept:
                parameter.zero_()


def _open_gate(qkv: nn.Linear, bias: float) -> None:
    """Set the gate, the last rows of `qkv`, to a constant."""
    rows = qkv.in_features
    qkv.weight[-rows:].zero_()
    qkv.bias[-rows:].fill_(bias)
