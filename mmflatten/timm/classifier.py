"""The classifier that timm builds from a backbone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

import torch
from timm.layers import SelectAdaptivePool2d
from torch import Tensor, nn

from mmflatten.console import quiet_libraries
from mmflatten.models.backbones.base import Backbone
from mmflatten.models.backbones.plain import PlainBackbone

TOKEN = 'token'
# The papers train parameters with these name parts without weight decay; timm adds biases and
# norms.
_NO_DECAY = (
    'embed.cls_token',
    'embed.position.',
    'relative_position_bias.',
    'neighbor_bias.',
    'pooled_bias.',
)


class Classifier(nn.Module):
    """A backbone, global pooling of its last map, and a linear layer, with the methods that timm
    expects of a model.

    Weights have the same names as in mmpretrain's classifier with this backbone, `backbone.*` and
    `head.fc.*`, so the two share checkpoints.

    Args:
        backbone: backbone class.
        last: index of the stage (or block of a plain backbone) whose output is classified.
        num_classes: 0 for no linear layer.
        in_chans: channels of the image.
        global_pool: 'token' for the class token (DeiT only), a pooling of the map ('avg', 'max',
            'avgmax' or 'catavgmax'), or '' for the map itself. None selects 'token' for DeiT and
            'avg' for other backbones.
        drop_rate: dropout before the linear layer.
        kwargs: arguments of the backbone.
    """

    def __init__(
        self,
        backbone: type[Backbone],
        last: int,
        num_classes: int = 1000,
        in_chans: int = 3,
        global_pool: str | None = None,
        drop_rate: float = 0.0,
        **kwargs,
    ) -> None:
        super().__init__()
        self._construct = partial(backbone, out_indices=(last,), in_channels=in_chans, **kwargs)
        self.backbone = self._construct()
        if not next(self.parameters()).is_meta:
            with quiet_libraries():  # MMEngine logs the initialisation of every parameter
                self.backbone.init_weights()
        self.num_features = self.backbone.out_channels[-1]
        self.drop_rate = drop_rate
        default_pool = TOKEN if isinstance(self.backbone, PlainBackbone) else 'avg'
        self.reset_classifier(num_classes, default_pool if global_pool is None else global_pool)

    def no_weight_decay(self) -> set[str]:
        """Return the names of parameters that are trained without weight decay."""
        names = set()
        for name, _ in self.named_parameters():
            if any(part in name for part in _NO_DECAY):
                names.add(name)
        return names

    def group_matcher(self, coarse: bool = False) -> Callable[[str], int]:
        """Return a function from parameter name to layer number, for layer-wise learning rate
        decay.
        """

        def layer_of(name: str) -> int:
            depth, _ = self.backbone.get_layer_depth(name, prefix='backbone.')
            return depth

        return layer_of

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Recompute the activations of the blocks in the backward pass to save memory."""
        for module in (self.backbone, *getattr(self.backbone, 'stages', ())):
            module.with_cp = enable

    @torch.no_grad()
    def init_non_persistent_buffers(self) -> None:
        """Recompute buffers that checkpoints omit, such as indices, for models that Hugging Face
        builds on `meta`.
        """
        buffers, saved = dict(self.backbone.named_buffers()), self.backbone.state_dict()
        for name, buffer in self._construct().named_buffers():
            if name not in saved:
                buffers[name].copy_(buffer)

    @property
    def head_hidden_size(self) -> int:
        """Input channels of the linear layer."""
        return self.num_features * (2 if self.global_pool == 'catavgmax' else 1)

    def get_classifier(self) -> nn.Module:
        """Return the linear layer."""
        return self.head.fc

    def reset_classifier(self, num_classes: int, global_pool: str | None = None) -> None:
        """Replace the linear layer, and the pooling if `global_pool` is given.

        Raises:
            ValueError: `global_pool='token'` for a backbone without class token, or classes without
                pooling.
        """
        pool = self.global_pool if global_pool is None else global_pool
        plain = isinstance(self.backbone, PlainBackbone)
        if pool == TOKEN and not plain:
            raise ValueError(
                f'global_pool: {type(self.backbone).__name__} has no class token, got {pool!r}. Use'
                " 'avg'."
            )
        if not pool and num_classes:
            raise ValueError(
                f"num_classes: expected 0 with global_pool='', got {num_classes}. Choose a pooling,"
                " such as 'avg', or no classes."
            )
        self.global_pool, self.num_classes = pool, num_classes
        if plain:
            self.backbone.out_type = 'cls_token' if pool == TOKEN else 'featmap'
        fc: nn.Module = nn.Identity()
        if num_classes:
            fc = nn.Linear(self.head_hidden_size, num_classes)
            nn.init.trunc_normal_(fc.weight, std=0.02)
            nn.init.zeros_(fc.bias)
        pooling: nn.Module = nn.Identity()
        if pool != TOKEN:
            pooling = SelectAdaptivePool2d(pool_type=pool, flatten=bool(pool))
        head = nn.Sequential(
            OrderedDict(global_pool=pooling, drop=nn.Dropout(self.drop_rate), fc=fc)
        )
        self.head = head.to(next(self.backbone.parameters())).train(self.training)

    def forward_features(self, image: Tensor) -> Tensor:
        """Return the normalised class token `(B, C)` or last map `(B, C, H, W)`."""
        return self.backbone(image)[-1]

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Return logits `(B, num_classes)`, or with `pre_logits` the input of the linear layer."""
        return self.head[:2](x) if pre_logits else self.head(x)

    def forward(self, image: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(image))
