"""Stages of a backbone, and the last map of each."""

from typing import Any

import torch
from torch import Tensor, nn

from mmflatten.models.layers import split_prefix, tokens_to_map


def stages(model: nn.Module) -> list[str]:
    """Return the name of the last block of each stage of a model's backbone, or nothing for unknown
    backbones.

    The stages of a plain backbone are its blocks.
    """
    prefix = 'backbone.' if hasattr(model, 'backbone') else ''
    backbone = getattr(model, 'backbone', model)
    if hasattr(backbone, 'stages'):  # FLatten, L2ViT, Focal; Swin of mmdet and mmpretrain
        return [
            f'{prefix}stages.{i}.blocks.{len(stage.blocks) - 1}'
            for i, stage in enumerate(backbone.stages)
        ]
    if hasattr(backbone, 'blocks'):
        return [f'{prefix}blocks.{i}' for i in range(len(backbone.blocks))]
    return [f'{prefix}{name}' for name in getattr(backbone, 'res_layers', ())]  # ResNets


def map_of_block(backbone: nn.Module, block: nn.Module, batch: Tensor) -> Tensor:
    """Run a backbone and return the map `(B, C, H, W)` of one of its blocks, with gradients.

    Blocks of tokens `(B, N, C)` receive their map shape as their second argument. Class tokens are
    left out.
    """
    calls: list[tuple[tuple, Any]] = []
    hook = block.register_forward_hook(lambda module, args, output: calls.append((args, output)))
    with torch.enable_grad(), hook:
        backbone(batch)
    (_, *hw), output = calls[-1]
    if hw and output.dim() == 3:
        output = tokens_to_map(split_prefix(output, hw[0])[1], hw[0])
    if output.dim() != 4:
        raise ValueError(
            'model: expected blocks whose outputs are maps, or tokens with their map shape, got'
            f' shape {tuple(output.shape)} from {type(block).__name__}.'
        )
    return output
