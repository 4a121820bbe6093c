"""FLatten-DeiT, -PVT, -PVTv2, -CSwin: recipes of their configs, what their optimizers decay, what they start from."""
import re
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, PARAM_SCHEDULERS
from mmengine.runner import Runner
from torch import nn

from mmflatten.analysis.flops.meta import build_on_meta
from mmflatten.models import attention
from mmflatten.models.layers import GridTable

ROOT = Path(__file__).parents[2] / 'configs'
FAMILIES = ('flatten_deit', 'flatten_pvt', 'flatten_pvt_v2', 'flatten_cswin')
DENSE = sorted(path.relative_to(ROOT).as_posix() for family in FAMILIES for path in (ROOT / family).glob('*_*.py')
               if path.stem.endswith(('_coco', '_ade20k-512x512')))

# Images on each of 8 GPUs; highest, first and last learning rate; weight decay; largest norm of the gradients; drop
# path; decay of the averaged weights. The official settings after their scaling by the batch.
RECIPES = {
    'flatten_deit/{}deit-t_8xb128_in1k': (128, 1e-3, 1e-6, 1e-5, .05, None, .1, None),
    'flatten_pvt/{}pvt-t_8xb128_in1k': (128, 1e-3, 2e-6, 2e-5, .05, None, .1, None),
    'flatten_pvt/{}pvt-s_8xb64_in1k': (64, 5e-4, 1e-6, 1e-5, .05, None, .1, None),
    'flatten_pvt/{}pvt-m_8xb64_in1k': (64, 5e-4, 1e-6, 1e-5, .05, 1., .3, None),
    'flatten_pvt/{}pvt-l_8xb32_in1k': (32, 2.5e-4, 5e-7, 5e-6, .05, 1., .3, None),
    'flatten_pvt_v2/{}pvtv2-b0_8xb128_in1k': (128, 1e-3, 2e-6, 2e-5, .05, None, .1, None),
    'flatten_pvt_v2/{}pvtv2-b1_8xb128_in1k': (128, 1e-3, 2e-6, 2e-5, .05, None, .1, None),
    'flatten_pvt_v2/{}pvtv2-b2_8xb128_in1k': (128, 1e-3, 2e-6, 2e-5, .05, None, .1, None),
    'flatten_pvt_v2/{}pvtv2-b3_8xb128_in1k': (128, 1e-3, 2e-6, 2e-5, .05, 1., .3, None),
    'flatten_pvt_v2/{}pvtv2-b4_8xb64_in1k': (64, 5e-4, 1e-6, 1e-5, .05, 1., .3, None),
    'flatten_cswin/{}cswin-t_8xb256_in1k': (256, 2e-3, 4e-6, 4e-5, .05, None, .2, .99984),
    'flatten_cswin/{}cswin-s_8xb128_in1k': (128, 1e-3, 2e-6, 2e-5, .05, None, .4, .99984),
    'flatten_cswin/{}cswin-b_8xb64_in1k': (64, 5e-4, 1e-6, 1e-5, .1, None, .5, .99982),
    'flatten_cswin/{}cswin-b_8xb32_in1k-384px': (32, 2.5e-6, None, 2.5e-7, 1e-8, None, .7, .99982),
}
# Counted on the official classes and on DeiT's own. PVT's has a norm behind its last stage that it never calls.
UNUSED = 2 * 512
PARAMETERS = {
    'flatten_deit/deit-t_8xb128_in1k': 5_717_416,
    'flatten_deit/flatten-deit-t_8xb128_in1k': 6_191_272,
    'flatten_pvt/flatten-pvt-t_8xb128_in1k': 12_150_504 - UNUSED,
    'flatten_pvt/flatten-pvt-s_8xb64_in1k': 21_670_248 - UNUSED,
    'flatten_pvt/flatten-pvt-m_8xb64_in1k': 37_242_216 - UNUSED,
    'flatten_pvt/flatten-pvt-l_8xb32_in1k': 50_649_192 - UNUSED,
    'flatten_pvt/pvt-t_8xb128_in1k': 13_228_264 - UNUSED,
    'flatten_pvt/pvt-s_8xb64_in1k': 24_484_840 - UNUSED,
    'flatten_pvt/pvt-m_8xb64_in1k': 44_207_080 - UNUSED,
    'flatten_pvt/pvt-l_8xb32_in1k': 61_368_296 - UNUSED,
    'flatten_pvt_v2/flatten-pvtv2-b0_8xb128_in1k': 3_594_824,
    'flatten_pvt_v2/flatten-pvtv2-b1_8xb128_in1k': 12_931_240,
    'flatten_pvt_v2/flatten-pvtv2-b2_8xb128_in1k': 22_548_264,
    'flatten_pvt_v2/flatten-pvtv2-b3_8xb128_in1k': 38_273_832,
    'flatten_pvt_v2/flatten-pvtv2-b4_8xb64_in1k': 51_836_968,
    'flatten_cswin/flatten-cswin-t_8xb256_in1k': 21_201_768,
    'flatten_cswin/flatten-cswin-s_8xb128_in1k': 35_451_752,
    'flatten_cswin/flatten-cswin-b_8xb64_in1k': 74_867_032,
    'flatten_cswin/flatten-cswin-b_8xb32_in1k-384px': 78_369_112,
}
WARM_UP = {'flatten_deit': 5, 'flatten_pvt': 5, 'flatten_pvt_v2': 5, 'flatten_cswin': 20}


def learning_rates(config: Config, per_epoch: int) -> list[float]:
    """The learning rate at every step of the training."""
    wrapper = build_optim_wrapper(nn.Linear(1, 1), dict(type='OptimWrapper', optimizer=config.optim_wrapper.optimizer))
    schedulers = [PARAM_SCHEDULERS.build(dict(part), default_args=dict(optimizer=wrapper, epoch_length=per_epoch))
                  for part in config.param_scheduler]
    rates = []
    for step in range(1, config.train_cfg.max_epochs * per_epoch + 1):
        rates.append(wrapper.optimizer.param_groups[0]['lr'])
        wrapper.step()
        for scheduler in schedulers:
            if not scheduler.by_epoch or step % per_epoch == 0:
                scheduler.step()
    return rates


@pytest.mark.parametrize('prefix', ['flatten-', ''], ids=['flatten', 'softmax'])
@pytest.mark.parametrize('name', RECIPES)
def test_classifiers_have_the_official_settings(name, prefix):
    batch, lr, first, last, decay, clip, drop_path, averaging = RECIPES[name]
    config = Config.fromfile(ROOT / f'{name.format(prefix)}.py')
    assert config.train_dataloader.batch_size == batch and config.auto_scale_lr.base_batch_size == 8 * batch
    assert config.optim_wrapper.optimizer.lr == pytest.approx(lr)
    assert config.optim_wrapper.optimizer.weight_decay == decay
    assert (config.optim_wrapper.get('clip_grad') or {}).get('max_norm') == clip
    assert config.model.backbone.drop_path_rate == drop_path
    hooks = config.get('custom_hooks', [])
    assert [hook.momentum for hook in hooks] == ([] if averaging is None else [pytest.approx(1 - averaging)])

    per_epoch = 5
    rates = learning_rates(config, per_epoch)
    assert rates[0] == pytest.approx(lr if first is None else first)
    assert max(rates) == pytest.approx(lr, rel=.012)  # the cosine runs under the warm-up
    # DeiT's own code passes over the cool-down of its scheduler; the FLatten code trains it.
    cool_down = 0 if 'deit' in name else 10
    assert len(rates) == ((20 if '384px' in name else 300) + cool_down) * per_epoch
    # MMEngine's cosine ends a step before its last value, of which there are more in an epoch of ImageNet.
    assert rates[-1 - cool_down * per_epoch:] == pytest.approx([last] * (1 + cool_down * per_epoch), rel=4e-3)
    assert len(set(rates[len(rates) - cool_down * per_epoch:])) <= 1


@pytest.mark.parametrize('name', ['flatten_deit/flatten-deit-t_8xb128_in1k', 'flatten_pvt/flatten-pvt-l_8xb32_in1k',
                                  'flatten_cswin/flatten-cswin-t_8xb256_in1k'])
def test_rates_follow_the_official_scheduler_to_the_end_of_the_cool_down(name):
    from timm.scheduler import CosineLRScheduler
    config, per_epoch = Config.fromfile(ROOT / f'{name}.py'), 40
    peak = config.optim_wrapper.optimizer.lr
    low, first = (1e-5, 1e-6) if 'deit' in name else (.02 * peak, .002 * peak)
    official = CosineLRScheduler(
        torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak), t_initial=300 * per_epoch, lr_min=low,
        warmup_lr_init=first, warmup_t=WARM_UP[name.partition('/')[0]] * per_epoch, t_in_epochs=False)
    ours = learning_rates(config, per_epoch)
    theirs = [official._get_lr(step)[0] for step in range(len(ours))]
    # In MMEngine a warm-up multiplies what the cosine gives, and ends a step earlier; the official one replaces it.
    assert ours == pytest.approx(theirs, abs=.012 * peak)
    assert ours[20 * per_epoch:] == pytest.approx(theirs[20 * per_epoch:], abs=.0003 * peak)


@pytest.mark.parametrize('name', PARAMETERS)
def test_models_have_the_parameters_of_the_official_classes(name):
    model = build_on_meta(Config.fromfile(ROOT / f'{name}.py').model, 'mmpretrain')
    assert sum(parameter.numel() for parameter in model.parameters()) == PARAMETERS[name]


def decayed(model: nn.Module, config: Config) -> dict[str, bool]:
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    decay = {id(p): group['weight_decay'] for group in optimizer.param_groups for p in group['params']}
    return {name: decay[id(parameter)] > 0 for name, parameter in model.named_parameters()}


@pytest.mark.parametrize('name, spared', [
    ('flatten_deit/flatten-deit-t_8xb128_in1k', {'embed.cls_token', 'embed.position.table'}),
    ('flatten_deit/deit-t_8xb128_in1k', {'embed.cls_token', 'embed.position.table'}),
    ('flatten_pvt/flatten-pvt-t_8xb128_in1k', set()),
    ('flatten_pvt_v2/flatten-pvtv2-b0_8xb128_in1k', set()),
    ('flatten_cswin/flatten-cswin-t_8xb256_in1k', set()),
])
def test_classifiers_decay_all_but_vectors_and_what_the_official_code_names(name, spared, load_config):
    config = load_config(f'{name}.py')
    model = build_on_meta(config.model, 'mmpretrain')
    for parameter, is_decayed in decayed(model, config).items():
        kept = model.get_parameter(parameter).ndim == 1 or parameter.removeprefix('backbone.') in spared
        assert is_decayed is not kept, parameter


@pytest.mark.parametrize('name, spared', [
    ('flatten_pvt/mask-rcnn_flatten-pvt-t_fpn_1x_coco', ()),
    ('flatten_pvt/semantic-fpn_pvt-t_8xb2-40k_ade20k-512x512', ()),
    ('flatten_pvt_v2/upernet_flatten-pvtv2-b1_8xb2-160k_ade20k-512x512', ('norm', )),
    ('flatten_cswin/mask-rcnn_flatten-cswin-t_fpn_1x_coco', ('norm', )),
    ('flatten_deit/mask-rcnn_flatten-deit-t_simple-fpn_1x_coco', ('norm', 'cls_token', 'embed.position')),
    ('flatten_deit/upernet_flatten-deit-s_simple-fpn_8xb2-160k_ade20k-512x512',
     ('norm', 'cls_token', 'embed.position')),
])
def test_dense_recipes_decay_what_the_lab_decays(name, spared, load_config):
    config = load_config(f'{name}.py')
    model = build_on_meta(config.model, config.default_scope)
    groups = decayed(model, config)
    assert groups == {parameter: not any(word in parameter for word in spared) for parameter in groups}
    assert any('positional_encoding' in parameter for parameter in groups) or '_pvt-t_' in name


@pytest.mark.parametrize('name', DENSE)
def test_dense_backbones_fit_the_weights_of_their_classifiers(name):
    config = Config.fromfile(ROOT / name)
    stem = Path(config.model.backbone.init_cfg.checkpoint).stem
    assert config.model.backbone.init_cfg.checkpoint.startswith('checkpoints/') and stem.endswith('_in1k')
    source, = (ROOT / name).parent.glob(f'{stem.removesuffix("_in1k")}_8xb*_in1k.py')
    classifier = build_on_meta(Config.fromfile(source).model, 'mmpretrain').backbone
    backbone = build_on_meta(config.model, config.default_scope).backbone
    given = {key: value.shape for key, value in classifier.state_dict().items()}
    taken = {key: value.shape for key, value in backbone.state_dict().items()}
    # Output norms of stages before the last may start anew or be left behind, nothing else.
    lacking = {key for key, shape in taken.items() if given.get(key) != shape}
    assert all(re.fullmatch(r'norms\.[0-2]\..*', key) for key in lacking | (given.keys() - taken.keys()))


@pytest.mark.parametrize('name', ['', 'flatten-'], ids=['cswin', 'flatten-cswin'])
def test_fine_tuning_cswin_at_384_takes_all_weights_of_224(name, load_config):
    thin = dict(embed_dims=16, depths=(1, 1, 2, 1), num_heads=(2, 4, 8, 16))
    models = []
    for ending in ('8xb64_in1k', '8xb32_in1k-384px'):
        config = load_config(f'flatten_cswin/{name}cswin-b_{ending}.py')
        config.model.backbone.arch, config.model.head.in_channels = thin, 128
        models.append(MODELS.build(config.model))
    models[1].load_state_dict(models[0].state_dict(), strict=True)
    sizes = {module.grid_size for module in models[1].modules() if isinstance(module, GridTable)}
    assert sizes == ({(96, 96), (48, 48)} if name else set())


@pytest.mark.parametrize('model, mark, cls', [
    (model, mark, getattr(attention, cls)) for model in ('flatten_deit/deit-t', 'flatten_swin/swin-t')
    for mark, cls in (('hydra', 'HydraAttention'), ('efficient', 'EfficientAttention'),
                      ('linear-angular', 'LinearAngularAttention'), ('enhanced-linear', 'EnhancedLinearAttention'))
])
def test_compared_attentions_replace_the_focused_one_and_nothing_else(model, mark, cls):
    config = Config.fromfile(ROOT / f'{model}_8xb128_in1k_{mark}-attention.py')
    parent = Config.fromfile(ROOT / f'{model.replace("/", "/flatten-")}_8xb128_in1k.py')
    mixers = [module for module in build_on_meta(config.model, 'mmpretrain').modules()
              if isinstance(module, attention.TokenMixer)]
    kinds = [cls] * 12 if 'deit' in model else [cls] * 4 + [attention.SoftmaxAttention] * 8
    assert [type(mixer) for mixer in mixers] == kinds
    del config.model.backbone['linear_attention']
    assert config.to_dict() == parent.to_dict()


def test_every_image_of_deits_epoch_comes_three_times(load_config):
    from mmpretrain.registry import DATA_SAMPLERS
    sampler = dict(load_config('flatten_deit/flatten-deit-t_8xb128_in1k.py').train_dataloader.sampler)
    order = list(DATA_SAMPLERS.build(sampler, default_args=dict(dataset=range(12), seed=0)))
    assert len(order) == 12 and len(set(order)) == 4 and all(order.count(index) == 3 for index in order)


class Slope(BaseModel):
    """A weight that every step of SGD lowers by the learning rate."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs, data_samples=None, mode='tensor'):
        return dict(loss=self.weight.sum())


def test_checkpoints_of_cswin_hold_the_averaged_weights_and_the_others_beside_them(tmp_path, load_config):
    config = load_config('flatten_cswin/flatten-cswin-t_8xb256_in1k.py')
    runner = Runner(
        Slope(), str(tmp_path), train_dataloader=dict(batch_size=1, sampler=dict(type='DefaultSampler', shuffle=False),
                                                      dataset=[dict(inputs=torch.zeros(1))] * 3),
        train_cfg=dict(by_epoch=True, max_epochs=1),
        optim_wrapper=dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=1.)),
        default_hooks=dict(checkpoint=config.default_hooks.checkpoint), custom_hooks=config.custom_hooks,
        default_scope='mmpretrain', experiment_name='slope', log_level='ERROR')
    runner.train()
    saved = torch.load(tmp_path / 'epoch_1.pth', weights_only=False)
    # After the steps to -1, -2, -3; the average starts at the first of them.
    average = -1.
    for value in (-2., -3.):
        average = .99984 * average + (1 - .99984) * value
    assert saved['state_dict']['weight'].item() == pytest.approx(average, abs=1e-6)
    assert saved['ema_state_dict']['module.weight'].item() == -3.
