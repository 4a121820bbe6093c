"""A backbone in the two forms that timm builds: a classifier, and the maps of its stages."""
from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from operator import mul

import torch
from mmengine.logging import MMLogger
from timm.layers import SelectAdaptivePool2d
from timm.models import FeatureInfo
from torch import Tensor, nn

from mmflatten.models.backbones.base import Backbone
from mmflatten.models.backbones.plain import PlainBackbone

TOKEN = 'token'
# Parts of names of tables and tokens that the papers train without weight decay; timm adds biases and norms.
_NO_DECAY = ('embed.cls_token', 'embed.position.', 'relative_position_bias.', 'neighbor_bias.', 'pooled_bias.')


class _Model(nn.Module):
    """What timm asks of a model, whatever it returns.

    Args:
        backbone: class of the backbone.
        out_indices: its stages, or blocks, whose results are needed.
        in_chans: channels of the image.
        kwargs: arguments of the backbone.
    """

    def __init__(self, backbone: type[Backbone], out_indices: Sequence[int], in_chans: int = 3, **kwargs) -> None:
        super().__init__()
        self._construct = partial(backbone, out_indices=tuple(out_indices), **kwargs)
        self.backbone = self._construct()
        _set_in_channels(self.backbone, in_chans)
        if not next(self.parameters()).is_meta:
            with _without_report():
                self.backbone.init_weights()

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters that weight decay leaves alone."""
        return {name for name, _ in self.named_parameters() if any(part in name for part in _NO_DECAY)}

    def group_matcher(self, coarse: bool = False) -> Callable[[str], int]:
        """From the name of a parameter to its layer, for learning rates that decay by layer: a layer is a block."""
        return lambda name: self.backbone.get_layer_depth(name, prefix='backbone.')[0]

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute the blocks' activations in the backward pass to save memory."""
        for module in (self.backbone, *getattr(self.backbone, 'stages', ())):
            module.with_cp = enable

    @torch.no_grad()
    def init_non_persistent_buffers(self) -> None:
        """Compute anew what no checkpoint holds, such as indices: Hugging Face builds models without memory."""
        own, saved = dict(self.backbone.named_buffers()), self.backbone.state_dict()
        for name, buffer in self._construct().named_buffers():
            if name not in saved:
                own[name].copy_(buffer)


class Classifier(_Model):
    """A backbone, a pooling of its last map, and a linear layer.

    The weights have the names of mmpretrain's classifier with this backbone, `backbone.*` and `head.fc.*`, so that the
    checkpoints of either load into the other.

    Args:
        last: the stage, or in a plain backbone the block, whose result is classified.
        num_classes: 0 for no linear layer.
        global_pool: 'token' for the class token, which DeiT has; 'avg', 'max', 'avgmax' or 'catavgmax' of the map; ''
            for the map itself. None takes the class token where there is one, else 'avg'.
        drop_rate: of the dropout before the linear layer.
        backbone, in_chans, kwargs: the class of the backbone, the channels of the image, arguments of the backbone.
    """

    def __init__(self, backbone: type[Backbone], last: int, num_classes: int = 1000, in_chans: int = 3,
                 global_pool: str | None = None, drop_rate: float = 0., **kwargs) -> None:
        super().__init__(backbone, (last,), in_chans, **kwargs)
        self.feature_info = _feature_info(self.backbone)
        self.num_features = self.backbone.out_channels[-1]
        self.drop_rate = drop_rate
        default_pool = TOKEN if isinstance(self.backbone, PlainBackbone) else 'avg'
        self.reset_classifier(num_classes, default_pool if global_pool is None else global_pool)

    @property
    def head_hidden_size(self) -> int:
        """Channels that the linear layer sees."""
        return self.num_features * (2 if self.global_pool == 'catavgmax' else 1)

    def get_classifier(self) -> nn.Module:
        """The linear layer."""
        return self.head.fc

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Give the model a new linear layer, and another pooling if one is named.

        Raises:
            ValueError: a class token of a backbone that has none, or classes without a pooling.
        """
        pool = self.global_pool if global_pool is None else global_pool
        plain = isinstance(self.backbone, PlainBackbone)
        if pool == TOKEN and not plain:
            raise ValueError(f'global_pool ({pool!r}) requires a class token, and {type(self.backbone).__name__} has '
                             "none; take 'avg'")
        if not pool and num_classes:
            raise ValueError(f'global_pool ({pool!r}) leaves a map, which no linear layer takes: num_classes '
                             f'({num_classes}) must be 0')
        self.global_pool, self.num_classes = pool, num_classes
        if plain:
            self.backbone.out_type = 'cls_token' if pool == TOKEN else 'featmap'
        fc = nn.Linear(self.head_hidden_size, num_classes) if num_classes else nn.Identity()
        if num_classes:
            nn.init.trunc_normal_(fc.weight, std=.02)
            nn.init.zeros_(fc.bias)
        pooling = nn.Identity() if pool == TOKEN else SelectAdaptivePool2d(pool_type=pool, flatten=bool(pool))
        head = nn.Sequential(OrderedDict(global_pool=pooling, drop=nn.Dropout(self.drop_rate), fc=fc))
        self.head = head.to(next(self.backbone.parameters())).train(self.training)

    def forward_features(self, image: Tensor) -> Tensor:
        """The class token `(B, C)`, or the last map `(B, C, H, W)`, normalised as for the classifier."""
        return self.backbone(image)[-1]

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits `(B, num_classes)`; what the linear layer would see, if `pre_logits`."""
        return self.head[:2](x) if pre_logits else self.head(x)

    def forward(self, image: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(image))


class FeatureExtractor(_Model):
    """The maps of several stages, finest first, each through a norm of its own: what detectors and segmentors take.

    Args:
        out_indices: stages, or blocks of a plain backbone.
        backbone, in_chans, kwargs: as in `Classifier`.
    """

    num_classes = 0

    def __init__(self, backbone: type[Backbone], out_indices: Sequence[int], in_chans: int = 3, **kwargs) -> None:
        if issubclass(backbone, PlainBackbone):
            kwargs.setdefault('out_type', 'featmap')
        super().__init__(backbone, out_indices, in_chans, **kwargs)
        self.feature_info = FeatureInfo(_feature_info(self.backbone), self.backbone.out_indices)

    def forward(self, image: Tensor) -> list[Tensor]:
        return list(self.backbone(image))


def _set_in_channels(backbone: Backbone, in_chans: int) -> None:
    """Let the first convolution take images of `in_chans` channels."""
    name, conv = next((name, module) for name, module in backbone.named_modules() if isinstance(module, nn.Conv2d))
    if in_chans != conv.in_channels:
        parent, _, leaf = name.rpartition('.')
        setattr(backbone.get_submodule(parent), leaf, nn.Conv2d(
            in_chans, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, bias=conv.bias is not None))


@contextmanager
def _without_report() -> Iterator[None]:
    """Inside, MMEngine does not log how it initialises each of the hundreds of parameters."""
    logger = MMLogger.get_current_instance()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _feature_info(backbone: Backbone) -> list[dict]:
    """Channels and stride of the result of every stage, or block of a plain backbone, in timm's words."""
    if isinstance(backbone, PlainBackbone):
        part, embeds = 'blocks', [backbone.embed] * len(backbone.blocks)
        strides = [backbone.embed.stride] * len(embeds)
    else:
        part, embeds = 'stages', [stage.embed for stage in backbone.stages]
        strides = list(accumulate((embed.stride for embed in embeds), mul))
    info = [dict(num_chs=embed.out_channels, reduction=stride, module=f'backbone.{part}.{i}')
            for i, (embed, stride) in enumerate(zip(embeds, strides))]
    for index, channels in zip(backbone.out_indices, backbone.out_channels):  # a projection may change them
        info[index]['num_chs'] = channels
    return info
