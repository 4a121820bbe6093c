"""What every backbone does besides its forward pass: freezing, checkpointing, loading of pre-trained weights."""
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from mmengine.logging import print_log
from mmengine.model import BaseModule
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

DEFAULT_INIT = [dict(type='TruncNormal', layer='Linear', std=.02, bias=0.),
                dict(type='Constant', layer='LayerNorm', val=1., bias=0.)]
_PLACE = re.compile(r'(?:stages|blocks)\.(\d+)\.')


def run_blocks(blocks: Iterable[nn.Module], x_BNC: Tensor, hw_shape: tuple[int, int], with_cp: bool) -> Tensor:
    """Run blocks in order; `with_cp` recomputes their activations in the backward pass to save memory."""
    for block in blocks:
        if with_cp and x_BNC.requires_grad:
            x_BNC = checkpoint(block, x_BNC, hw_shape, use_reentrant=False,
                               context_fn=partial(_recompute_contexts, block))
        else:
            x_BNC = block(x_BNC, hw_shape)
    return x_BNC


def _recompute_contexts(block: nn.Module) -> tuple[AbstractContextManager, AbstractContextManager]:
    return nullcontext(), _keep_running_statistics(block)


@contextmanager
def _keep_running_statistics(block: nn.Module) -> Iterator[None]:
    """Recomputing a block must not count its batch a second time in the statistics of batch norms."""
    norms = [module for module in block.modules() if isinstance(module, _BatchNorm)]
    saved = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    for norm in norms:
        norm.momentum, norm.num_batches_tracked = 0., None
    try:
        yield
    finally:
        for norm, momentum, number in saved:
            norm.momentum, norm.num_batches_tracked = momentum, number


def check_indices(out_indices: Sequence[int], number: int, what: str) -> tuple[int, ...]:
    """`out_indices` as a sorted tuple.

    Raises:
        ValueError: empty, repeated or out of range.
    """
    indices = tuple(sorted(out_indices)) if isinstance(out_indices, (list, tuple, range)) else ()
    if not indices or len(set(indices)) != len(indices) or indices[0] < 0 or indices[-1] >= number:
        raise ValueError(f'out_indices ({out_indices!r}) must be different numbers from 0 to {number - 1}, '
                         f'one for each {what} whose output is wanted')
    return indices


class Backbone(BaseModule):
    """Base of all backbones; here are the arguments that all families share.

    Args:
        arch: a name of the family's table, or a dict of `embed_dims` (of the first stage, doubled in each next one, or
            of every stage where the table says so), `depths`, `num_heads` and, if wanted, `mlp_ratio`.
        img_size: image size in pre-training, which positional tables have; any other works in `forward`.
        attn_types: a letter per stage, or a list with a letter or a letter per block for each stage. `S` is the
            family's softmax attention, which makes it the model it varies (Swin, PVT, ...); `L` focused linear
            attention; 'LLMS4' makes the first 4 blocks of the third stage `L` and the rest `S`.
        mixers: letter to config of its mixer, for more letters or other attentions, such as
            `dict(H=dict(type='HydraAttention'))`.
        linear_attention: short for `mixers=dict(L=...)`.
        qkv_bias: whether the projections of query, key and value have a bias.
        mask_padding: keep softmax windows from attending zero padding, which official weights attend.
        drop_path_rate: of the last block; grows linearly from 0.
        out_indices: stages whose maps are returned. Stages behind the last of them do not exist.
        frozen_stages: -1 trains everything; 0 freezes the patch embedding, `i` also the first `i` stages.
        with_cp: recompute the blocks' activations in the backward pass to save memory.
        progressive_norm: training steps over which every layer norm turns into a batch norm (SLAB); 0 keeps them.
        init_cfg: as in MMEngine. With `dict(type='Pretrained', checkpoint=..., prefix='backbone.')` every weight must
            fit, but for those that the class names in `new_weights` and `droppable_weights`, such as output norms.
    """

    # Names, as regular expressions, of weights that a checkpoint may lack and so start anew, and of weights of a
    # checkpoint that may be left behind. A classifier has the output norm of its last stage alone.
    new_weights: tuple[str, ...] = (r'norms\..*',)
    droppable_weights: tuple[str, ...] = (r'norms\..*',)

    def __init__(self, frozen_stages: int = -1, init_cfg: dict | list | None = None) -> None:
        super().__init__(DEFAULT_INIT if init_cfg is None else init_cfg)
        self.frozen_stages = frozen_stages

    def layers(self) -> list[list[str]]:
        """How the names of the parameters of each layer begin, the embedding first, then a layer per block.

        Layer-wise learning rates decay along them. Whatever has no other place (output norms) is as new as a head.
        """
        return []

    def get_layer_depth(self, param_name: str, prefix: str = '') -> tuple[int, int]:
        """The number of a parameter's layer and how many there are, one more than `layers` for the head.

        The name and the meaning are mmpretrain's, whose `LearningRateDecayOptimWrapperConstructor` calls it.

        Args:
            param_name: name in the whole model; a parameter outside of the backbone belongs to the last layer.
            prefix: what names of the backbone's parameters begin with, such as 'backbone.'.
        """
        layers = self.layers()
        if param_name.startswith(prefix):
            name = param_name[len(prefix):]
            for depth, beginnings in enumerate(layers):
                if name.startswith(tuple(beginnings)):
                    return depth, len(layers) + 1
        return len(layers), len(layers) + 1

    def modules_to_freeze(self) -> list[nn.Module | nn.Parameter]:
        """What `frozen_stages` freezes."""
        return []

    def freeze(self) -> None:
        """Put the frozen modules in evaluation mode and stop their gradients."""
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

    def _load_pretrained(self, checkpoint: str, prefix: str = '', map_location: str = 'cpu') -> None:
        from mmengine.runner import CheckpointLoader  # imports OpenCV, which MMEngine does not bring

        state = CheckpointLoader.load_checkpoint(checkpoint, map_location=map_location, logger='current')
        state = state.get('state_dict', state)
        prefix = prefix if not prefix or prefix.endswith('.') else prefix + '.'
        weights = {key[len(prefix):]: value for key, value in state.items() if key.startswith(prefix)}
        try:
            missing, unexpected = self.load_state_dict(weights, strict=False)
        except RuntimeError as error:  # PyTorch lists the weights of another shape, a line for each
            shapes = ' '.join(line.strip() for line in str(error).splitlines()[1:3])
            raise ValueError(f'checkpoint {checkpoint} (prefix {prefix!r}) does not fit {type(self).__name__}: '
                             f'{shapes}') from error
        self.require_fit(missing, unexpected, f'checkpoint {checkpoint} (prefix {prefix!r})')
        if missing:
            print_log(f'{type(self).__name__}: not in {checkpoint}, so these start anew: {", ".join(missing)}',
                      logger='current')
        if unexpected:
            print_log(f'{type(self).__name__}: in {checkpoint} but not needed: {", ".join(unexpected)}',
                      logger='current')

    def require_fit(self, missing: Iterable[str], unexpected: Iterable[str], origin: str) -> None:
        """Refuse weights with other names than the backbone's.

        Excepted are those of `new_weights` and `droppable_weights`, and of the stages that `out_indices` leaves out.

        Raises:
            ValueError: names the first of them.
        """
        misfits = [f'missing {key}' for key in missing if not _matches(key, self.new_weights)]
        misfits += [f'unexpected {key}' for key in unexpected
                    if not _matches(key, self.droppable_weights) and not self._is_left_out(key)]
        if misfits:
            raise ValueError(f'{origin} does not fit {type(self).__name__}: {len(misfits)} keys, the first: '
                             f'{", ".join(misfits[:5])}. Was it converted with `mmflatten convert`, and is it '
                             'of the same architecture?')

    def _is_left_out(self, name: str) -> bool:
        place = _PLACE.match(name)
        return not self.is_whole and place is not None and int(place[1]) > self.out_indices[-1]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
