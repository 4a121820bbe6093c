"""Learning rates that decay from the head to the embedding, for classifiers, detectors and segmentors alike."""
from typing import Any

from mmengine.optim import DefaultOptimWrapperConstructor
from torch import nn

from mmflatten.registry import OPTIM_WRAPPER_CONSTRUCTORS


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class LayerDecayOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """MMEngine's constructor with one more rule: `lr * layer_decay_rate ** (layers between a parameter and the head)`.

    The backbone says in which layer a parameter is (`get_layer_depth`): the embedding, then a layer per block. Neck,
    heads and output norms keep the full rate. All other rules of `paramwise_cfg` hold beside it, so weight decay is
    spared where they say.

        optim_wrapper = dict(
            constructor='mmflatten.LayerDecayOptimWrapperConstructor',
            paramwise_cfg=dict(layer_decay_rate=0.8, norm_decay_mult=0.0))
    """

    def _validate_cfg(self) -> None:
        super()._validate_cfg()
        rate = self.paramwise_cfg.get('layer_decay_rate')
        if not isinstance(rate, (int, float)) or not 0 < rate <= 1:
            raise ValueError(f'paramwise_cfg.layer_decay_rate ({rate}) must be a number above 0, at most 1, such as '
                             '0.8; without a decay leave optim_wrapper.constructor out')
        if self.base_lr is None:
            raise ValueError('optimizer.lr must be given: layer_decay_rate multiplies it')

    def add_params(self, params: list[dict], module: nn.Module, prefix: str = '', **kwargs: Any) -> None:
        super().add_params(params, module, prefix, **kwargs)
        if not prefix:  # the whole model, after the recursion through its parts
            self._decay(params, module)

    def _decay(self, params: list[dict], model: nn.Module) -> None:
        backbone = getattr(model, 'backbone', None)
        if not hasattr(backbone, 'get_layer_depth'):
            raise ValueError(f'layer_decay_rate needs a backbone that tells its layers (get_layer_depth), as those of '
                             f'mmflatten do; {type(model).__name__} has {type(backbone).__name__}')
        rate = self.paramwise_cfg['layer_decay_rate']
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        for group in params:
            depth, number = backbone.get_layer_depth(names[id(group['params'][0])], 'backbone.')
            group['lr_scale'] = rate ** (number - 1 - depth)
            group['lr'] = group.get('lr', self.base_lr) * group['lr_scale']
