"""Layer-wise learning rate decay for classifiers, detectors and segmentors."""
from typing import Any

from mmengine.optim import DefaultOptimWrapperConstructor
from torch import nn

from mmflatten.registry import OPTIM_WRAPPER_CONSTRUCTORS


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """MMEngine's constructor with one more rule: `lr * layer_decay_rate ** (layers between a parameter and the head)`.

    The backbone's `get_layer_depth` gives the layer of a parameter: the embedding is the first, and each block is one
    more. Neck, heads and output norms have the full rate. The other rules of `paramwise_cfg` apply too.

        optim_wrapper = dict(
            constructor='mmflatten.LayerDecayOptimWrapperConstructor',
            paramwise_cfg=dict(layer_decay_rate=0.8, norm_decay_mult=0.0))
    """

    def _validate_cfg(self) -> None:
        super()._validate_cfg()
        rate = self.paramwise_cfg.get('layer_decay_rate')
        if not isinstance(rate, (int, float)) or not 0 < rate <= 1:
            raise ValueError(f'paramwise_cfg.layer_decay_rate: expected a number above 0 and at most 1, got {rate}. '
                             'Without layer decay, remove optim_wrapper.constructor.')
        if self.base_lr is None:
            raise ValueError('optimizer.lr: required with layer_decay_rate, which multiplies it.')

    def add_params(self, params: list[dict], module: nn.Module, prefix: str = '', **kwargs: Any) -> None:
        super().add_params(params, module, prefix, **kwargs)
        if prefix:  # a part of the model
            return
        backbone = getattr(module, 'backbone', None)
        if not hasattr(backbone, 'get_layer_depth'):
            raise ValueError('layer_decay_rate: requires a backbone with get_layer_depth, such as those of mmflatten, '
                             f'got {type(backbone).__name__} in {type(module).__name__}.')
        rate = self.paramwise_cfg['layer_decay_rate']
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        for group in params:
            depth, number = backbone.get_layer_depth(names[id(group['params'][0])], 'backbone.')
            group['lr_scale'] = rate ** (number - 1 - depth)
            group['lr'] = group.get('lr', self.base_lr) * group['lr_scale']
