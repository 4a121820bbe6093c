"""Base class of all backbones: blocks, freezing, checkpointing, pre-trained weights."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from mmengine.logging import print_log
from mmengine.model import BaseModule
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from mmflatten.models.attention import TokenMixer, build_mixer
from mmflatten.models.backbones.arch import BlockPlan, StagePlan
from mmflatten.models.backbones.letters import letter_mixers
from mmflatten.models.layers import (
    FeedForward,
    make_norms_progressive,
    pre_norm_block,
)

DEFAULT_INIT = [
    dict(type='TruncNormal', layer='Linear', std=0.02, bias=0.0),
    dict(type='Constant', layer='LayerNorm', val=1.0, bias=0.0),
]
CONV_INIT = [*DEFAULT_INIT, dict(type='TruncNormal', layer='Conv2d', std=0.02)]
_INDEX = re.compile(r'(?:stages|blocks)\.(\d+)\.')


class Backbone(BaseModule):
    """Base class of all backbones. Arguments shared by the families are documented here.

    A family sets `archs`, `default_mixers` and `norm_eps`, and overrides the `make_*` methods in
    which it differs. Its `__init__` stores its own arguments and then calls `build`, which calls
    these methods.

    Args:
        arch: name of an architecture of the family, or a dict of `embed_dims`, `depths`,
            `num_heads` and optionally `mlp_ratio`. `embed_dims` is the width of the first stage,
            which doubles in each following stage, or a width per stage in families whose named
            architectures have one.
        img_size: image size in pre-training, which sets the size of positional tables. `forward`
            accepts any size.
        attn_types: one letter per stage, or a list with one letter, or one letter per block, for
            each stage. `S` is the softmax attention of the family's baseline (Swin, PVT, ...), `L`
            focused linear attention. In 'LLMS4' the first 4 blocks of the third stage are `L` and
            the others `S`.
        mixers: maps letters to mixer configs, to add letters or to replace attentions, such as
            `dict(H=dict(type='HydraAttention'))`.
        linear_attention: shorthand for `mixers=dict(L=...)`.
        qkv_bias: add a bias to the query, key and value projections.
        in_channels: bands of the image. `load_from` and `init_cfg` adapt weights of three bands.
        mask_padding: exclude zero padding from the keys of softmax windows. The official models
            include it.
        drop_path_rate: drop path rate of the last block. The rate grows linearly from 0.
        out_indices: stages whose maps are returned. Stages after the last of them are not built.
        frozen_stages: -1 trains everything, 0 freezes the patch embedding, `i` also freezes the
            first `i` stages.
        with_cp: recompute the activations of the blocks in the backward pass to save memory.
        progressive_norm: number of training steps over which layer norms turn into batch norms
            (SLAB), 0 for never.
        init_cfg: as in MMEngine. With `dict(type='Pretrained', checkpoint=..., prefix='backbone.')`
            all weight names must match, except those in `new_weights` and `droppable_weights`, such
            as output norms.
    """

    # Settings of the named architectures, and the mixer config of each letter.
    archs: Mapping[str, dict] = {}
    default_mixers: Mapping[str, dict] = {}
    norm_eps: float = 1e-5
    # Regular expressions for weights that a checkpoint may lack (they keep their initial values)
    # and for weights of a checkpoint that may be ignored. A classifier only has the output norm of
    # its last stage.
    new_weights: tuple[str, ...] = (r'norms\..*',)
    droppable_weights: tuple[str, ...] = (r'norms\..*',)
    default_init = DEFAULT_INIT
    # Set by subclasses. `is_whole`: no stage or block of the architecture is left out.
    out_indices: tuple[int, ...]
    is_whole: bool

    def __init__(
        self,
        *,
        mixers: Mapping[str, dict] | None = None,
        linear_attention: dict | None = None,
        in_channels: int = 3,
        qkv_bias: bool = True,
        frozen_stages: int = -1,
        with_cp: bool = False,
        progressive_norm: int = 0,
        init_cfg: dict | list | None = None,
    ) -> None:
        super().__init__(self.default_init if init_cfg is None else init_cfg)
        self.mixers = letter_mixers(mixers, linear_attention, self.default_mixers)
        if not isinstance(in_channels, int) or in_channels < 1:
            raise ValueError(f'in_channels: expected a number of bands, got {in_channels!r}.')
        self.in_channels = in_channels
        self.qkv_bias = qkv_bias
        self.frozen_stages = frozen_stages
        self.with_cp = with_cp
        self.progressive_norm = progressive_norm

    def make_block(self, stage: StagePlan, block: BlockPlan) -> nn.Module:
        """Build a block, called as `block(x_BNC, hw_shape)`."""
        return pre_norm_block(
            mixer=self.make_mixer(stage, block),
            ffn=self.make_ffn(stage, block),
            embed_dims=stage.embed_dims,
            drop_path=block.drop_path,
            eps=self.norm_eps,
        )

    def make_mixer(self, stage: StagePlan, block: BlockPlan) -> nn.Module:
        """Build the attention of a block, by default over the whole map."""
        return self.build_letter(stage, block.letter)

    def make_ffn(self, stage: StagePlan, block: BlockPlan) -> nn.Module:
        """Build the feed-forward network of a block."""
        return FeedForward(stage.embed_dims, stage.hidden_dims)

    def build_letter(self, stage: StagePlan, letter: str, **options: Any) -> TokenMixer:
        """Build the mixer of a letter. `options` extend or override the arguments of the stage."""
        arguments = dict(
            embed_dims=stage.embed_dims,
            num_heads=stage.num_heads,
            grid_size=stage.grid,
            qkv_bias=self.qkv_bias,
        )
        arguments.update(options)
        return build_mixer(self.mixers[letter], **arguments)

    def finish(self, number: int) -> None:
        """Apply `progressive_norm` and `frozen_stages` to a network with this number of stages or
        blocks.
        """
        if self.progressive_norm:
            make_norms_progressive(self, self.progressive_norm)
        if not -1 <= self.frozen_stages <= number:
            raise ValueError(
                f'frozen_stages: expected an integer from -1 to {number}, got {self.frozen_stages}.'
            )
        self.freeze()

    def layers(self) -> list[list[str]]:
        """Return the parameter name prefixes of each layer for layer-wise learning rate decay.

        The first layer is the embedding, then each block is one. Other parameters (output norms)
        train like a head.
        """
        return []

    def get_layer_depth(self, param_name: str, prefix: str = '') -> tuple[int, int]:
        """Return the layer number of a parameter, and the number of layers including the head.

        mmpretrain's `LearningRateDecayOptimWrapperConstructor` calls this method.

        Args:
            param_name: name in the whole model. Parameters outside the backbone belong to the last
                layer.
            prefix: prefix of the backbone's parameter names, such as 'backbone.'.
        """
        layers = self.layers()
        if param_name.startswith(prefix):
            name = param_name[len(prefix) :]
            for depth, prefixes in enumerate(layers):
                if name.startswith(tuple(prefixes)):
                    return depth, len(layers) + 1
        return len(layers), len(layers) + 1

    def modules_to_freeze(self) -> list[nn.Module | nn.Parameter]:
        """Return the modules and parameters that `frozen_stages` freezes."""
        return []

    def freeze(self) -> None:
        """Disable the gradients of frozen modules and set them to evaluation mode."""
        for frozen in self.modules_to_freeze():
            frozen.requires_grad_(False)
            if isinstance(frozen, nn.Module):
                frozen.eval()

    def train(self, mode: bool = True) -> Backbone:
        super().train(mode)
        self.freeze()
        return self

    def init_weights(self) -> None:
        cfg = self.init_cfg
        if isinstance(cfg, dict) and cfg.get('type') == 'Pretrained':
            self._load_pretrained(**{key: value for key, value in cfg.items() if key != 'type'})
            self._is_init = True
        else:
            super().init_weights()

    def _load_pretrained(
        self, checkpoint: str, prefix: str = '', map_location: str = 'cpu'
    ) -> None:
        # needs OpenCV, which MMEngine does not install
        from mmflatten.checkpoints.convert import unwrapped
        from mmflatten.checkpoints.input_bands import adapt_input_bands
        from mmflatten.checkpoints.loading import read_checkpoint

        content = read_checkpoint(checkpoint, map_location)
        if prefix and not prefix.endswith('.'):
            prefix += '.'
        state, _ = unwrapped(content.get('state_dict', content), prefix)
        weights = {}
        for key, value in state.items():
            if key.startswith(prefix):
                weights[key.removeprefix(prefix)] = value
        origin = f'checkpoint {checkpoint} (prefix {prefix!r})'
        for name in adapt_input_bands(weights, self.state_dict()):
            self._log(f'{name} adapted from 3 to {self.in_channels} bands')
        try:
            missing, unexpected = self.load_state_dict(weights, strict=False)
        except RuntimeError as error:  # PyTorch lists mismatched shapes, one per line
            lines = str(error).splitlines()[1:3]
            shapes = ' '.join(line.strip() for line in lines)
            raise ValueError(f'{origin} does not fit {type(self).__name__}: {shapes}') from error
        self.require_fit(missing, unexpected, origin)
        self._log(f'weights of {origin}')
        if missing:
            self._log(f'not in {checkpoint}, initial values kept: {", ".join(missing)}')
        if unexpected:
            self._log(f'unused weights of {checkpoint}: {", ".join(unexpected)}')

    def _log(self, message: str) -> None:
        print_log(f'{type(self).__name__}: {message}', logger='current')

    def require_fit(self, missing: Iterable[str], unexpected: Iterable[str], origin: str) -> None:
        """Check that the names of loaded weights match the backbone's.

        Exceptions are `new_weights`, `droppable_weights` and stages after the last of
        `out_indices`.

        Raises:
            ValueError: missing or unexpected weights; the message lists the first of them.
        """
        mismatches = []
        for key in missing:
            if not _matches(key, self.new_weights):
                mismatches.append(f'missing {key}')
        for key in unexpected:
            is_known = _matches(key, self.droppable_weights) or self._is_after_last_output(key)
            if not is_known:
                mismatches.append(f'unexpected {key}')
        if mismatches:
            raise ValueError(
                f'{origin} does not fit {type(self).__name__}: {len(mismatches)} keys differ, such'
                f' as {", ".join(mismatches[:5])}. Convert official checkpoints with `mmflatten'
                ' convert`, and check that the architecture is the same.'
            )

    def _is_after_last_output(self, name: str) -> bool:
        match = _INDEX.match(name)
        return not self.is_whole and match is not None and int(match[1]) > self.out_indices[-1]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def run_blocks(
    blocks: Iterable[nn.Module], x_BNC: Tensor, hw_shape: tuple[int, int], with_cp: bool
) -> Tensor:
    """Run blocks in order. `with_cp` recomputes their activations in the backward pass to save
    memory.
    """
    for block in blocks:
        if with_cp and x_BNC.requires_grad:
            x_BNC = checkpoint(
                block,
                x_BNC,
                hw_shape,
                use_reentrant=False,
                context_fn=partial(_recompute_contexts, block),
            )
        else:
            x_BNC = block(x_BNC, hw_shape)
    return x_BNC


def _recompute_contexts(block: nn.Module) -> tuple[AbstractContextManager, AbstractContextManager]:
    return nullcontext(), _keep_running_statistics(block)


@contextmanager
def _keep_running_statistics(block: nn.Module) -> Iterator[None]:
    """Freeze the running statistics of batch norms, which would otherwise count a recomputed batch
    twice.
    """
    norms = [module for module in block.modules() if isinstance(module, _BatchNorm)]
    saved = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0.0, None
    try:
        yield
    finally:
        for norm, momentum, number in saved:
            norm.momentum, norm.num_batches_tracked = momentum, number


def image_bands(model: nn.Module) -> int:
    """Return the bands of the images of a model, or of a backbone: 3 for those of libraries, whose
    `in_channels` may be those of feature maps.
    """
    backbone = getattr(model, 'backbone', model)
    is_ours = isinstance(backbone, Backbone) or type(backbone).__module__.startswith('mmflatten.')
    return getattr(backbone, 'in_channels', 3) if is_ours else 3


def check_indices(out_indices: Sequence[int], number: int, what: str) -> tuple[int, ...]:
    """Return the indices of stages or blocks as a sorted tuple; raise ValueError unless they are
    distinct and exist.
    """
    indices = tuple(sorted(out_indices)) if isinstance(out_indices, (list, tuple, range)) else ()
    if not indices or len(set(indices)) != len(indices) or indices[0] < 0 or indices[-1] >= number:
        raise ValueError(
            f'out_indices: expected distinct {what} indices from 0 to {number - 1}, got'
            f' {out_indices!r}.'
        )
    return indices
