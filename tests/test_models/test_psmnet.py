"""PSMNet and its data preprocessor: outputs of all modes, losses, invalid inputs."""

import pytest
import torch
import torch.nn.functional as F
from mmengine.optim import OptimWrapper
from mmengine.structures import PixelData

from mmflatten.registry import MODELS
from mmflatten.structures import StereoDataSample

TINY = dict(
    type='mmflatten.PSMNet', max_disp=16, base_channels=4, depths=(1, 2, 1, 1), pool_sizes=(4, 2)
)
AGGREGATIONS = ['basic', 'stackhourglass']
ATTENTIONS = ['FactorizedAttention', 'ConventionalAttention']


def build(seed: int = 0, **options):
    torch.manual_seed(seed)
    return MODELS.build({**TINY, **options})


def views(*shape: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {side: torch.randn(shape, generator=generator) for side in ('left', 'right')}


def batch(*sizes: tuple[int, int], disparity: float = 4.0, seed: int = 2) -> dict:
    """Return a batch of random textures, shifted by `disparity` in the right image."""
    generator = torch.Generator().manual_seed(seed)
    left = [
        torch.randint(256, (3, *size), dtype=torch.uint8, generator=generator) for size in sizes
    ]
    samples = []
    for size in sizes:
        truth = PixelData(
            data=torch.full((1, *size), disparity), valid=torch.ones(1, *size, dtype=torch.bool)
        )
        samples.append(
            StereoDataSample(
                gt_disparity=truth, metainfo=dict(left_path='left/a.png', img_shape=size)
            )
        )
    right = [image.roll(-int(disparity), -1) for image in left]
    return dict(inputs=dict(left=left, right=right), data_samples=samples)


@pytest.mark.parametrize(
    'options, parameters',
    [
        (dict(), 5_224_768),
        (dict(aggregation='basic'), 3_672_896),
        (dict(attention=dict(type='mmflatten.FactorizedAttention')), 5_224_768 + 49_536),
        (dict(attention=dict(type='mmflatten.ConventionalAttention')), 5_224_768 + 49_536),
    ],
)
def test_psmnet_parameter_counts_are_official(options, parameters):
    with torch.device('meta'):
        model = MODELS.build(dict(type='mmflatten.PSMNet', **options))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize('aggregation, number', list(zip(AGGREGATIONS, (1, 3))))
def test_psmnet_returns_all_estimates_only_in_training(aggregation, number):
    model, inputs = build(aggregation=aggregation), views(2, 3, 32, 48)
    estimates = model.train()(inputs)
    assert isinstance(estimates, tuple) and len(estimates) == number
    assert all(estimate.shape == (2, 32, 48) for estimate in estimates)
    disparity = model.eval()(inputs)
    assert disparity.shape == (2, 32, 48) and 0 <= disparity.min() and disparity.max() <= 15


@pytest.mark.parametrize(
    'options',
    [
        dict(aggregation='basic'),
        dict(),
        dict(max_disp=20),
        *(
            dict(attention=dict(type=f'mmflatten.{attention}', basis_channels=4))
            for attention in ATTENTIONS
        ),
    ],
)
def test_psmnet_accepts_any_size_and_trains_every_parameter(options):
    model = build(**options).train()
    for size in ((16, 16), (33, 51)):
        estimates = model(views(2, 3, *size))
        assert all(estimate.shape == (2, *size) for estimate in estimates)
    sum(estimate.square().mean() for estimate in estimates).backward()
    # The gradient of this bias is zero: it adds the same value to all scores of a softmax.
    untrained = [
        name
        for name, parameter in model.named_parameters()
        if not name.endswith('basis.bias')
        and not (parameter.grad.isfinite().all() and parameter.grad.any())
    ]
    assert untrained == []


@pytest.mark.parametrize('attention', ATTENTIONS)
def test_psmnet_attention_with_zero_init_preserves_output(attention):
    plain, inputs = build().eval(), views(1, 3, 32, 48)
    for zero_init in (True, False):
        config = dict(type=f'mmflatten.{attention}', basis_channels=4, zero_init=zero_init)
        model = build(attention=config).eval()
        model.init_weights()
        missing, unexpected = model.load_state_dict(plain.state_dict(), strict=False)
        assert not unexpected and all(name.startswith('features.attention.') for name in missing)
        with torch.no_grad():
            assert torch.equal(model(inputs), plain(inputs)) is zero_init


def test_psmnet_batch_norm_updates_once_per_side():
    model, inputs = build().train(), views(2, 3, 32, 48)
    model(inputs)
    assert model.features.stem[0].bn.num_batches_tracked == 2
    assert model.aggregation.stem[0].bn.num_batches_tracked == 1


def test_psmnet_loss_is_weighted_smooth_l1_over_valid_pixels():
    model, inputs = build().train(), views(1, 3, 32, 48)
    # a third beyond max_disp
    truth = torch.rand(1, 32, 48, generator=torch.Generator().manual_seed(3)) * 24
    valid = torch.rand(1, 32, 48, generator=torch.Generator().manual_seed(4)) > 0.3
    truth[~valid] = float('nan')  # invalid pixels must not count
    sample = StereoDataSample(gt_disparity=PixelData(data=truth, valid=valid))
    losses = model(inputs, [sample], mode='loss')
    counted = valid[0] & (truth[0] < 16)
    expected = [
        F.smooth_l1_loss(estimate[0][counted], truth[0][counted]) for estimate in model(inputs)
    ]
    for weight, mean, loss in zip((0.5, 0.7, 1.0), expected, losses.values(), strict=True):
        torch.testing.assert_close(loss, weight * mean, rtol=1e-5, atol=0)
    assert all('loss' in name for name in losses)


def test_psmnet_loss_is_zero_without_valid_pixels():
    model, data = build().train(), batch((32, 48), disparity=200.0)
    data = model.data_preprocessor(data, True)
    loss = sum(model(**data, mode='loss').values())
    loss.backward()
    assert loss == 0 and all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_psmnet_learns_disparity_of_shifted_pairs():
    model = build().train()
    optimizer = OptimWrapper(torch.optim.Adam(model.parameters(), lr=5e-3))
    for step in range(60):
        model.train_step(
            batch((32, 48), (32, 48), disparity=4.0 + 8 * (step % 2), seed=step), optimizer
        )
    for disparity in (4.0, 12.0):
        data = model.data_preprocessor(batch((32, 48), (32, 48), disparity=disparity, seed=99))
        with torch.no_grad():
            estimate = model(data['inputs'])[-1]
        # a constant prediction has an error of 4
        assert (estimate[..., 12:] - disparity).abs().mean() < 1.5


def test_psmnet_predict_crops_padding():
    model, data = build().eval(), batch((30, 41))
    with torch.no_grad():
        (sample,) = model.test_step(data)
        padded = {
            side: F.pad(
                (images[0].flip(0).float() - model.data_preprocessor.mean)
                / model.data_preprocessor.std,
                (0, 7, 2, 0),
            )[None]
            for side, images in data['inputs'].items()
        }
        expected = model(padded)[:, 2:, :41]
    assert sample.pred_disparity.data.shape == (1, 30, 41)
    torch.testing.assert_close(sample.pred_disparity.data, expected, rtol=0, atol=0)
    assert sample.batch_input_shape == (32, 48) and sample.left_path == 'left/a.png'


def test_psmnet_ignores_padding_in_mixed_size_batch():
    model = build().eval()
    data = batch((30, 41), (17, 64))
    prepared = model.data_preprocessor(data, True)
    assert prepared['inputs']['left'].shape == (2, 3, 32, 64)
    with torch.no_grad():
        predicted = model(**prepared, mode='predict')
        losses = model(**prepared, mode='loss')
    assert [sample.pred_disparity.shape for sample in predicted] == [(30, 41), (17, 64)]
    errors = torch.cat([sample.pred_disparity.data.flatten() for sample in predicted]) - 4
    expected = F.smooth_l1_loss(errors, torch.zeros_like(errors))
    torch.testing.assert_close(losses['loss_disparity3'], expected, rtol=1e-5, atol=0)


def test_psmnet_predict_creates_missing_samples():
    with torch.no_grad():
        samples = build().eval()(views(2, 3, 32, 48), mode='predict')
    assert [sample.pred_disparity.data.shape for sample in samples] == [(1, 32, 48)] * 2


@pytest.mark.parametrize('dtype, mean_difference', [(torch.bfloat16, 0.2), (torch.float16, 0.03)])
def test_psmnet_autocast_is_close_to_full_precision(dtype, mean_difference):
    model, inputs = build().eval(), views(1, 3, 32, 48)
    with torch.no_grad():
        exact = model(inputs)
        with torch.autocast('cpu', dtype=dtype):
            mixed = model(inputs)
    assert mixed.dtype == torch.float32
    assert 0 < (mixed - exact).abs().mean() < mean_difference  # disparities range from 0 to 15


def test_psmnet_align_corners_changes_output():
    models = [build(align_corners=align).eval() for align in (False, True)]
    models[1].load_state_dict(models[0].state_dict())
    with torch.no_grad():
        outputs = [model(views(1, 3, 32, 48)) for model in models]
    assert (outputs[0] - outputs[1]).abs().max() > 1e-3


def test_psmnet_convolutions_start_from_fan_out():
    model = build(base_channels=16)
    for conv in (
        model.features.stages[3][0].conv2.conv,
        model.aggregation.hourglasses[0].conv1.conv,
    ):
        fan_out = conv.weight[:, 0].numel()
        assert conv.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.05)
        assert conv.bias is None


@pytest.mark.parametrize(
    'wrong, named',
    [
        (dict(max_disp=30), r'max_disp.*30'),
        (dict(max_disp=0), r'max_disp.*0'),
        (dict(max_disp=48.0), r'max_disp.*48\.0'),
        (dict(aggregation='hourglass'), r"aggregation.*'hourglass'"),
        (dict(loss_weights=(1.0, 1.0)), r'loss_weights.*\(1\.0, 1\.0\)'),
        (dict(loss_weights=1.0), r'loss_weights.*1\.0'),
        (dict(depths=(1, 1, 1)), r'depths.*\(1, 1, 1\)'),
        (dict(depths=3), r'depths.*3'),
        (dict(pool_sizes=8), r'pool_sizes.*8'),
        (dict(base_channels=4.5), r'base_channels.*4\.5'),
        (dict(attention='FactorizedAttention'), r"attention.*'FactorizedAttention'"),
        (
            dict(attention=dict(reprojection=False, residual=False, value_channels=8)),
            'attention.*16.*8',
        ),
        (dict(attention=dict(ndim=3)), r'attention.ndim.*3'),
        (dict(pool_sizes=()), r'pool_sizes.*\(\)'),
        (dict(base_channels=0), r'base_channels.*0'),
        (
            dict(
                data_preprocessor=dict(type='mmflatten.StereoDataPreProcessor', std=(1.0, 0.0, 1.0))
            ),
            r'std.*\(1\.0, 0\.0',
        ),
        (
            dict(data_preprocessor=dict(type='mmflatten.StereoDataPreProcessor', pad_divisor=0)),
            r'pad_divisor.*0',
        ),
    ],
)
def test_psmnet_rejects_invalid_arguments(wrong, named):
    with pytest.raises(ValueError, match=named):
        build(**wrong)


def test_psmnet_rejects_images_smaller_than_pool():
    with torch.device('meta'):
        model = MODELS.build(dict(type='mmflatten.PSMNet')).eval()
    image = torch.zeros(1, 3, 240, 512, device='meta')
    with pytest.raises(ValueError, match=r'256x256.*pool_sizes \(64, 32, 16, 8\).*240x512'):
        model(dict(left=image, right=image))


def test_psmnet_rejects_unknown_mode():
    with pytest.raises(ValueError, match=r"mode.*'train'"):
        build()(views(1, 3, 32, 48), mode='train')


@pytest.mark.parametrize(
    'change, named',
    [
        (lambda data: data['inputs'].pop('right'), r"inputs.*'right'"),
        (lambda data: data['inputs']['right'].pop(), r'inputs.*1 left and 0 right'),
        (
            lambda data: data['inputs'].update(right=[torch.zeros(3, 32, 47)]),
            r'\(3, 32, 48\) and \(3, 32, 47\)',
        ),
        (
            lambda data: data['inputs'].update(
                left=[torch.zeros(32, 48)], right=[torch.zeros(32, 48)]
            ),
            r'\(32, 48\)',
        ),
        (lambda data: data.update(inputs=torch.zeros(1, 3, 32, 48)), r'inputs.*Tensor'),
        (
            lambda data: delattr(data['data_samples'][0], 'gt_disparity'),
            r'gt_disparity of left/a\.png',
        ),
        (lambda data: data.update(data_samples=None), r'data_samples.*None'),
        (
            lambda data: setattr(
                data['data_samples'][0],
                'gt_disparity',
                PixelData(data=torch.zeros(1, 32, 40), valid=torch.ones(1, 32, 40) > 0),
            ),
            r'left/a\.png.*32x48.*32x40',
        ),
    ],
)
def test_psmnet_rejects_invalid_batch(change, named):
    model, data = build().train(), batch((32, 48))
    change(data)
    with pytest.raises(ValueError, match=named):
        model(**model.data_preprocessor(data, True), mode='loss')


def test_stereo_preprocessor_names_files_of_mismatched_pair():
    data = batch((32, 48))
    data['inputs']['right'] = [torch.zeros(3, 31, 48)]
    data['data_samples'][0].set_metainfo(dict(right_path='right/a.png'))
    with pytest.raises(ValueError, match=r'left/a\.png and right/a\.png'):
        build().data_preprocessor(data)


def test_stereo_preprocessor_reverses_channels_with_bgr_to_rgb():
    image = torch.stack([torch.full((16, 16), value) for value in (10.0, 20.0, 30.0)])
    data = dict(inputs=dict(left=image[None], right=image[None]))
    for bgr_to_rgb, means in ((True, (30.0, 20.0, 10.0)), (False, (10.0, 20.0, 30.0))):
        preprocessor = MODELS.build(
            dict(
                type='mmflatten.StereoDataPreProcessor',
                bgr_to_rgb=bgr_to_rgb,
                mean=(0, 0, 0),
                std=(1, 1, 2),
            )
        )
        left = preprocessor(data)['inputs']['left']
        assert left.mean((0, 2, 3)).tolist() == [means[0], means[1], means[2] / 2]


@pytest.mark.parametrize('bands', [1, 4])
def test_psmnet_takes_other_bands(bands):
    norms = dict(type='mmflatten.StereoDataPreProcessor', mean=[1.0] * bands, std=[2.0] * bands)
    model = build(in_channels=bands, data_preprocessor=norms)
    image = torch.ones(bands, 32, 48)
    data = model.data_preprocessor(dict(inputs=dict(left=[image], right=[image])))
    assert not data['inputs']['left'].any()
    assert model.eval()(**data, mode='tensor').shape == (1, 32, 48)
    with pytest.raises(ValueError, match='got'):
        model.data_preprocessor(dict(inputs=dict(left=[image[:0]], right=[image[:0]])))
    with pytest.raises(ValueError, match=f'in_channels.*{bands}'):
        build(in_channels=bands)
