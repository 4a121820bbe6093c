"""The model of every config: its size, one training step, one prediction, and what its optimizer decays."""
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS

from mmflatten.analysis.flops.meta import build_on_meta
from mmflatten.analysis.zoo.rows import from_csv

ROOT = Path(__file__).parents[2] / 'configs'
CONFIGS = sorted(path for path in ROOT.glob('*/*.py') if path.parent.name != '_base_')
NAMES = [path.relative_to(ROOT).as_posix() for path in CONFIGS]

# One of every kind of head, with linear and with softmax attention, at 224 and 384; the others are in the full sweep.
SAMPLE = {
    'flatten_swin/flatten-swin-t_8xb128_in1k.py',
    'flatten_swin/flatten-swin-t_8xb128_in1k_linear-window-7.py',
    'flatten_swin/swin-t_8xb128_in1k.py',
    'flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco.py',
    'flatten_swin/cascade-mask-rcnn_swin-t_fpn_ms-3x_coco.py',
    'flatten_swin/retinanet_flatten-swin-t_fpn_1x_coco.py',
    'flatten_swin/atss_flatten-swin-t_fpn_ms-3x_coco.py',
    'flatten_swin/upernet_flatten-swin-t_8xb2-160k_ade20k-512x512.py',
}

# Counted on the official classes (the classifiers) or with the libraries' own Swin (the baselines of dense tasks).
PARAMETERS = {
    'flatten-swin-t_8xb128_in1k': 29_192_384,
    'flatten-swin-s_8xb128_in1k': 50_510_288,
    'flatten-swin-b_8xb64_in1k': 88_972_488,
    'flatten-swin-b_8xb32_in1k-384px': 91_433_928,
    'swin-t_8xb128_in1k': 28_288_354,
    'swin-s_8xb128_in1k': 49_606_258,
    'swin-b_8xb64_in1k': 87_768_224,
    'swin-b_8xb32_in1k-384px': 87_903_584,
    'upernet_swin-t_8xb2-160k_ade20k-512x512': 59_941_862,
}
PARAMETERS_M = {  # as the spec prints them, in millions
    'flatten-swin-t_8xb128_in1k_lsss': 28.89,
    'flatten-swin-t_8xb128_in1k_llls': 29.64,
    'flatten-swin-t_8xb128_in1k_llll': 29.71,
    'flatten-swin-t_8xb128_in1k_linear-window-7': 28.32,
    'flatten-swin-t_8xb128_in1k_linear-window-14': 28.40,
    'flatten-swin-t_8xb128_in1k_linear-window-28': 28.74,
}


# What the model zoo prints, and the first config of every folder and kind of model.
COUNTED = {entry.row.config: entry.params for entry in from_csv(ROOT.parent / 'docs' / 'model_zoo.csv')}
FIRST = set({(Path(name).parent, Path(name).stem.partition('_')[0]): name for name in reversed(NAMES)}.values())


def family(name: str) -> str:
    return name.partition('/')[0]


@pytest.fixture
def load_model(load_config, build_model):
    """Config and model by name."""

    def load(name: str):
        config = load_config(name)
        return config, build_model(config)

    return load


def count_parameters(name: str) -> int:
    config = Config.fromfile(ROOT / name)
    return sum(parameter.numel() for parameter in build_on_meta(config.model, config.default_scope).parameters())


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=[] if Path(name).stem in PARAMETERS or name in FIRST else pytest.mark.full)
    for name in NAMES
])
def test_every_model_builds_at_full_size_with_the_known_number_of_parameters(name):
    counted, stem = count_parameters(name), Path(name).stem
    assert counted == COUNTED[f'configs/{name}']
    if stem in PARAMETERS:
        assert counted == PARAMETERS[stem]
    elif stem in PARAMETERS_M:
        assert round(counted / 1e6, 2) == PARAMETERS_M[stem]
    elif 'focusing-factor' in stem:
        assert counted == PARAMETERS['flatten-swin-t_8xb128_in1k']
    elif family(name) == 'digits':
        assert counted < 5e6, 'a model for a CPU'


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=[] if name in SAMPLE or family(name) == 'digits' else pytest.mark.full) for name in NAMES
    if 'psmnet' not in name  # in test_stereo_configs.py
])
def test_one_training_step_and_one_prediction(name, load_model, make_batch):
    config, model = load_model(name)
    optimizer = build_optim_wrapper(model, config.optim_wrapper)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    watched = [trained[0], trained[-1]]
    before = [parameter.detach().clone() for parameter in watched]

    losses = model.train().train_step(make_batch(config.default_scope, 64, 64), optimizer)

    assert losses and all(torch.isfinite(loss).all() for loss in losses.values())
    assert all((parameter != old).any() for parameter, old in zip(watched, before))
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())

    with torch.no_grad():
        first, second = model.eval().test_step(make_batch(config.default_scope, 64, 96))
    if config.default_scope == 'mmpretrain':
        assert second.pred_score.shape == (model.head.num_classes, )
        assert second.pred_score.sum().item() == pytest.approx(1, abs=1e-4)
    elif config.default_scope == 'mmseg':
        assert second.pred_sem_seg.data.shape == (1, 64, 96)
        assert second.seg_logits.data.shape == (model.num_classes, 64, 96)
    else:
        found = second.pred_instances
        assert len(found.bboxes) == len(found.scores) == len(found.labels)
        assert ('masks' in found) == (config.val_evaluator.metric == ['bbox', 'segm'])
        if 'masks' in found:
            assert found.masks.shape[1:] == (64, 96)


def decayed(name: str, load_model) -> dict[str, bool]:
    """Whether the optimizer decays a parameter, by its name."""
    config, model = load_model(name)
    optimizer = build_optim_wrapper(model, config.optim_wrapper).optimizer
    decay = {id(p): group['weight_decay'] for group in optimizer.param_groups for p in group['params']}
    assert len(decay) == len(list(model.parameters()))
    assert set(decay.values()) == {0, config.optim_wrapper.optimizer.weight_decay}
    return {parameter_name: decay[id(p)] > 0 for parameter_name, p in model.named_parameters()}


@pytest.mark.parametrize('name', ['flatten-swin-t_8xb128_in1k', 'swin-t_8xb128_in1k'])
def test_classification_decays_all_but_biases_norms_and_position_bias_tables(name, load_model):
    for parameter, is_decayed in decayed(f'flatten_swin/{name}.py', load_model).items():
        kept = parameter.endswith('.bias') or '.norm.' in parameter or 'norms.' in parameter
        kept |= 'relative_position_bias' in parameter
        assert is_decayed is not kept, parameter


def test_classification_decays_what_is_special_to_linear_attention(load_model):
    groups = decayed('flatten_swin/flatten-swin-t_8xb128_in1k.py', load_model)
    for ending in ('scale', 'positional_encoding.table', 'dwc.conv.weight'):
        found = [is_decayed for parameter, is_decayed in groups.items() if parameter.endswith(ending)]
        assert len(found) == 4 and all(found), ending  # two blocks in each of two linear stages


@pytest.mark.parametrize('name', [
    'mask-rcnn_flatten-swin-t_fpn_1x_coco', 'atss_swin-t_fpn_ms-3x_coco',
    'upernet_flatten-swin-t_8xb2-160k_ade20k-512x512'
])
def test_dense_tasks_keep_norms_and_position_bias_tables_of_the_backbone_from_decay(name, load_model):
    for parameter, is_decayed in decayed(f'flatten_swin/{name}.py', load_model).items():
        if parameter.startswith('backbone.'):
            kept = '.norm.' in parameter or 'norms.' in parameter or 'relative_position_bias' in parameter
            assert is_decayed is not kept, parameter


def test_a_detector_without_its_pretrained_weights_says_where_it_looked(load_config):
    config = load_config('flatten_swin/mask-rcnn_flatten-swin-t_fpn_1x_coco.py')
    config.model.backbone.init_cfg.checkpoint = 'nowhere/weights.pth'
    backbone = MODELS.build(config.model.backbone)
    with pytest.raises(FileNotFoundError, match='nowhere/weights.pth'):
        backbone.init_weights()


@pytest.mark.parametrize('name', ['mask-rcnn_flatten-swin-t_fpn_1x_coco', 'retinanet_flatten-swin-t_fpn_1x_coco'])
def test_a_detector_starts_from_a_classifier_of_this_folder(name, load_config, tmp_path):
    classifier = MODELS.build(load_config('flatten_swin/flatten-swin-t_8xb128_in1k.py').model)
    classifier.init_weights()
    torch.save(dict(state_dict=classifier.state_dict()), tmp_path / 'classifier.pth')
    config = load_config(f'flatten_swin/{name}.py')
    config.model.backbone.init_cfg.checkpoint = str(tmp_path / 'classifier.pth')
    backbone = MODELS.build(config.model.backbone)
    backbone.init_weights()
    loaded = backbone.state_dict()
    for key, value in classifier.backbone.state_dict().items():
        torch.testing.assert_close(loaded[key], value, rtol=0, atol=0)


@pytest.mark.parametrize('name', ['flatten-swin-b_8xb64_in1k', 'swin-b_8xb64_in1k'])
def test_fine_tuning_at_384_takes_all_weights_of_224(name, load_config):
    small = MODELS.build(load_config(f'flatten_swin/{name}.py').model)
    config = load_config(f'flatten_swin/{name.replace("8xb64_in1k", "8xb32_in1k-384px")}.py')
    assert config.load_from.startswith('checkpoints/')
    MODELS.build(config.model).load_state_dict(small.state_dict(), strict=True)


@pytest.mark.parametrize('name', ['digits/mask-rcnn_flatten-swin-nano_fpn_digits.py',
                                  'flatten_swin/cascade-mask-rcnn_swin-t_fpn_ms-3x_coco.py',
                                  'factorized/mask-rcnn_r50_fa-fpn-all-res3-res4_fpn_32xb2-24e_coco.py'])
def test_roi_align_gets_the_memory_layout_it_reads(name, load_model):
    """mmcv's RoIAlign takes any tensor for a contiguous (B, C, H, W) one and reads garbage from channels-last maps."""
    _, model = load_model(name)
    with torch.no_grad():
        maps = model.eval().extract_feat(torch.zeros(2, 3, 64, 96))
    assert all(feature_map.is_contiguous() for feature_map in maps)
