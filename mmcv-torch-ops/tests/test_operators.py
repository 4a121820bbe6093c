"""mmcv's operators in PyTorch: equal to the compiled extension, and clear about what they cannot
do.
"""

import importlib
import re
from pathlib import Path

import mmcv
import mmcv.ops
import numpy as np
import pytest
import torch
from cases import OPERATORS, Case, Draw, all_cases, difference, sampled

import mmcv_torch_ops.extension as extension
from mmcv_torch_ops import boxes
from mmcv_torch_ops.missing import MISSING

COMPILED = Path(__file__).with_name('compiled.npz')
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-7}


@pytest.fixture(scope='module')
def compiled() -> dict[str, np.ndarray]:
    """Results of the compiled extension, by case and place in its list of results."""
    with np.load(COMPILED) as stored:
        return dict(stored)


def cases_of(operator: str) -> list[Case]:
    return [case for case in all_cases() if case.name.rsplit('-', 1)[0] == operator]


@pytest.mark.parametrize('operator', OPERATORS)
def test_results_and_gradients_equal_the_compiled_extension(operator, compiled):
    for case in cases_of(operator):
        results = case.run(extension)
        for place, result in enumerate(results):
            expected = compiled[f'{case.name}/{place}']
            assert difference(sampled(result), expected) < TOLERANCE[case.dtype], (
                f'{case.name}, result {place}'
            )


class Changed:
    """The extension, called with other tensors of the same values; what it writes is copied
    back.
    """

    def __init__(self, change):
        self.change = change

    def __getattr__(self, name):
        function = getattr(extension, name)

        def call(*args, **kwargs):
            changed = [self.change(argument) for argument in args]
            result = function(*changed, **kwargs)
            for given, used in zip(args, changed):
                # a scratch buffer may have changed
                if used is not given and used.shape == given.shape:
                    given.copy_(used)
            return result.cpu() if isinstance(result, torch.Tensor) else result

        return call


def strided(argument):
    if not isinstance(argument, torch.Tensor) or argument.dim() < 2 or not argument.numel():
        return argument
    return torch.stack((argument, argument), -1)[..., 0]


def on_gpu(argument):
    return argument.cuda() if isinstance(argument, torch.Tensor) else argument


@pytest.mark.parametrize('operator', OPERATORS)
def test_memory_layout_does_not_matter(operator):
    for case in cases_of(operator)[:20]:
        for plain, other in zip(case.run(extension), case.run(Changed(strided))):
            assert torch.allclose(plain, other, rtol=1e-5), case.name


@pytest.mark.skipif(not torch.cuda.is_available(), reason='there is no GPU')
# mmcv moves them to the CPU
@pytest.mark.parametrize('operator', sorted(set(OPERATORS) - {'softnms', 'nms_match'}))
def test_a_gpu_gives_the_same_results_and_gradients(operator):
    for case in cases_of(operator):
        results = zip(case.run(extension), case.run(Changed(on_gpu)))
        for place, (expected, result) in enumerate(results):
            error = difference(result.numpy(), expected.numpy())
            assert error < 5 * TOLERANCE[case.dtype], f'{case.name}, result {place}: {error}'


def test_every_name_that_mmcv_asks_for_is_there_or_explained():
    names = set()
    for file in Path(mmcv.ops.__file__).parent.glob('*.py'):
        for block in re.findall(r"load_ext\(\s*'_ext',\s*\[(.*?)\]", file.read_text(), re.DOTALL):
            names |= set(re.findall(r"'(\w+)'", block))
    assert names <= {*extension.__all__, *MISSING}
    assert not {*extension.__all__} & {*MISSING}
    for name in names:
        assert callable(getattr(extension, name))
    with pytest.raises(AttributeError, match='cornr_pool'):
        assert extension.cornr_pool


def test_missing_operator_names_its_users_and_the_command_that_compiles_it():
    message = r'nms_rotated \(called by nms_rotated, used by mmrotate\).*pip install'
    with pytest.raises(NotImplementedError, match=message):
        mmcv.ops.nms_rotated(torch.rand(2, 5), torch.rand(2), 0.5)


@pytest.mark.parametrize('version', ['1.7.2', '2.4.0', '3.0.0'])
def test_other_versions_of_mmcv_are_refused(version, monkeypatch):
    monkeypatch.setattr(mmcv, '__version__', version)
    with pytest.raises(ImportError, match=re.escape(f'fits mmcv 2.0 to 2.3, got mmcv {version}')):
        importlib.reload(extension)


@pytest.mark.parametrize(
    'change, message',
    [
        (dict(pool_mode=2), 'pool_mode must be 0'),
        (dict(aligned_height=(7, 7)), r'pair of positive integers, got \(\(7, 7\), 2\)'),
        (dict(aligned_height=0), 'pair of positive integers'),
    ],
)
def test_regions_with_impossible_arguments_are_refused(change, message):
    options = dict(
        aligned_height=2,
        aligned_width=2,
        spatial_scale=1.0,
        sampling_ratio=0,
        pool_mode=1,
        aligned=True,
    )
    output, none = torch.zeros(1, 3, 2, 2), torch.zeros(0)
    image = torch.rand(1, 3, 8, 8)
    with pytest.raises(ValueError, match=message):
        extension.roi_align_forward(
            image, torch.rand(1, 5), output, none, none, **(options | change)
        )
    with pytest.raises(ValueError, match=r'rois must have shape \(K, 5\).*got \(1, 4\)'):
        extension.roi_align_forward(image, torch.rand(1, 4), output, none, none, **options)


def test_boxes_scores_and_offsets_of_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r'nms: boxes must have shape \(N, 4\), got \(3, 5\)'):
        extension.nms(torch.rand(3, 5), torch.rand(3), 0.5, 0)
    message = r'nms: scores must have shape \(3,\) for 3 boxes, got \(2,\)'
    with pytest.raises(ValueError, match=message):
        extension.nms(torch.rand(3, 4), torch.rand(2), 0.5, 0)
    image, weight = torch.rand(1, 2, 8, 8), torch.rand(2, 2, 3, 3)
    message = r'offset must have shape \(1, 18, 6, 6\).*got \(1, 9, 6, 6\)'
    with pytest.raises(ValueError, match=message):
        mmcv.ops.deform_conv2d(image, torch.rand(1, 9, 6, 6), weight)


def test_soft_nms_of_many_boxes_equals_that_of_few(monkeypatch):
    few = [case.run(extension) for case in cases_of('softnms')[:20]]
    monkeypatch.setattr(boxes, '_PAIRS', 0)
    for case, expected in zip(cases_of('softnms'), few):
        for result, wanted in zip(case.run(extension), expected):
            assert torch.equal(result, wanted)


def test_region_without_area_gives_zero_and_no_gradient():
    image = torch.rand(1, 2, 8, 8, requires_grad=True)
    for pool_mode in ('avg', 'max'):
        pooled = mmcv.ops.roi_align(
            image, torch.tensor([[0.0, 3, 3, 3, 3]]), (2, 2), 1.0, 0, pool_mode, True
        )
        assert not pooled.any()
    pooled = mmcv.ops.roi_pool(image, torch.tensor([[0.0, 5, 5, 2, 2]]), (2, 2), 1.0)
    pooled.sum().backward()
    assert not pooled.any() and not image.grad.any()


@pytest.mark.parametrize('operator', ['roi_align', 'roi_align max', 'roi_pool', 'deform_roi_pool'])
def test_region_that_is_not_finite_gives_nan_and_no_gradient(operator):
    image = torch.rand(1, 2, 8, 8, requires_grad=True)
    rois = torch.tensor([[0.0, float('nan'), 0, 4, 4], [0, 1, 1, 6, 6], [0, 0, 0, float('inf'), 3]])
    if operator == 'roi_pool':
        pooled = mmcv.ops.roi_pool(image, rois, (2, 2), 1.0)
    elif operator == 'deform_roi_pool':
        pooled = mmcv.ops.deform_roi_pool(image, rois, torch.zeros(3, 2, 2, 2), (2, 2), 1.0, 2, 0.1)
    else:
        pooled = mmcv.ops.roi_align(
            image, rois, (2, 2), 1.0, 2, 'max' if operator.endswith('max') else 'avg', True
        )
    assert pooled[[0, 2]].isnan().all() and pooled[1].isfinite().all()
    (together,) = torch.autograd.grad(pooled.sum(), image, retain_graph=True)
    (alone,) = torch.autograd.grad(pooled[1].sum(), image)
    assert torch.equal(together, alone) and together.any()


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    'operator', sorted(set(OPERATORS) - {'nms_match', 'psa_mask', 'ms_deform_attn'})
)
def test_half_types_are_computed_in_single_precision(operator, dtype):
    make = OPERATORS[operator].make
    tolerance = 4e-2 if dtype == torch.bfloat16 else 2e-2
    for seed in range(6):
        with_half, with_single = Draw(seed, dtype), Draw(seed, dtype)
        with_single.after = torch.float32
        results = list(zip(make(with_half)(extension), make(with_single)(extension)))
        if operator == 'roi_align':
            results = results[:1]  # mmcv rounds the places of the maxima
        for half, single in results:
            if half.is_floating_point():
                assert half.dtype == dtype
                assert difference(half.float().numpy(), single.numpy()) < tolerance


def test_regions_of_very_different_sizes_are_pooled_alike_alone_and_together():
    torch.manual_seed(0)
    image = torch.rand(1, 3, 40, 40)
    rois = torch.tensor([[0.0, 0, 0, 40, 40], [0, 3, 3, 5, 6], [0, 10, 2, 39, 4], [0, 1, 1, 9, 9]])

    def roi_align(some):
        return mmcv.ops.roi_align(image, some, (3, 3), 1.0, 0, 'max', True)

    def deform_roi_pool(some):
        return mmcv.ops.deform_roi_pool(image, some, torch.zeros(len(some), 2, 3, 3), (3, 3))

    for pool in (roi_align, deform_roi_pool):
        assert torch.equal(pool(rois), torch.cat([pool(roi[None]) for roi in rois]))


def test_new_deformable_layer_has_no_slope_one_pixel_outside():
    """At offsets of zero the taps in the padding sit on the border, where mmcv's gradient is that
    of the outside.
    """
    image, weight = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 3, 3)
    offset = torch.zeros(1, 18, 3, 3, requires_grad=True)
    mmcv.ops.deform_conv2d(image, offset, weight, 1, 1).sum().backward()
    first_tap = offset.grad[0, :2]
    assert not first_tap[:, 0].any() and not first_tap[:, :, 0].any()


def test_weight_alone_gets_the_gradient_it_gets_with_the_others():
    torch.manual_seed(0)
    image = torch.rand(1, 2, 6, 6)
    offset = torch.randn(1, 18, 6, 6)
    weight = torch.rand(3, 2, 3, 3, requires_grad=True)
    loss = mmcv.ops.deform_conv2d(image, offset, weight, 1, 1).square().sum()
    (alone,) = torch.autograd.grad(loss, [weight])
    image.requires_grad_()
    loss = mmcv.ops.deform_conv2d(image, offset, weight, 1, 1).square().sum()
    together, _ = torch.autograd.grad(loss, [weight, image])
    assert torch.equal(alone, together)


def test_carafe_equals_its_formula_with_gradients():
    torch.manual_seed(0)
    features = torch.rand(1, 4, 3, 5, requires_grad=True)
    masks = torch.rand(1, 2 * 9, 6, 10, requires_grad=True)
    patches = torch.nn.functional.unfold(features, 3, padding=1).view(1, 2, 2, 9, 3, 1, 5, 1)
    formula = (patches * masks.view(1, 2, 1, 9, 3, 2, 5, 2)).sum(3).reshape(1, 4, 6, 10)
    result = mmcv.ops.carafe(features, masks, 3, 2, 2)
    assert torch.allclose(result, formula, atol=1e-6)
    gradient = torch.rand_like(result)
    gradients = torch.autograd.grad(result, [features, masks], gradient)
    expected = torch.autograd.grad(formula, [features, masks], gradient)
    for ours, wanted in zip(gradients, expected):
        assert torch.allclose(ours, wanted, atol=1e-5)


def test_masked_convolution_is_the_convolution_at_the_mask():
    torch.manual_seed(0)
    layer = mmcv.ops.MaskedConv2d(3, 5, 3, padding=1).eval()
    image = torch.rand(1, 3, 7, 9)
    mask = (torch.rand(1, 7, 9) < 0.4).float()
    expected = torch.nn.functional.conv2d(image, layer.weight, layer.bias, padding=1) * mask
    result = mmcv.ops.masked_conv2d(image, mask, layer.weight, layer.bias, 1)
    assert torch.allclose(result, expected, atol=1e-5)


@pytest.mark.parametrize('kind, most', [('sigmoid', 4), ('softmax', 3)])
def test_focal_loss_of_an_unknown_class_is_refused(kind, most):
    loss = getattr(mmcv.ops, f'{kind}_focal_loss')
    loss(torch.rand(2, 4), torch.tensor([0, most]), 2.0, 0.25, None, 'sum')
    message = f'{kind}_focal_loss: target must be at most {most}, got {most + 1}'
    with pytest.raises(ValueError, match=message):
        loss(torch.rand(2, 4), torch.tensor([0, most + 1]), 2.0, 0.25, None, 'sum')


def suppressed_lanes(lanes, scores, overlap, top_k):
    """Lane suppression with loops, as its paper's code does it."""
    order = scores.argsort(descending=True).tolist()
    points = lanes.shape[1] - 5
    removed = set()
    keep = []
    parent = [0] * len(lanes)
    for place, best in enumerate(order):
        if best in removed or len(keep) == top_k:
            continue
        keep.append(best)
        parent[best] = len(keep)
        for other in order[place + 1 :]:
            starts = [int(lanes[i, 2] * (points - 1) + 0.5) for i in (best, other)]
            ends = [start + int(lanes[i, 4]) - 1 for start, i in zip(starts, (best, other))]
            start = max(starts)
            end = min(*ends, points - 1)
            if end < start:
                continue
            shared = slice(5 + start, 6 + end)
            distance = (lanes[best, shared] - lanes[other, shared]).abs().sum()
            if distance < overlap * (end - start + 1):
                removed.add(other)
                parent[other] = len(keep)
    return keep, parent


@pytest.mark.parametrize('top_k', [4, 50])
def test_line_nms_equals_loops_over_lanes(top_k):
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        number = seed + 1
        lanes = torch.rand(number, 5 + 12, generator=random) * 4
        lanes[:, 2] = torch.rand(number, generator=random)
        lanes[:, 4] = torch.randint(1, 12, (number,), generator=random)
        scores = torch.randperm(number, generator=random).float()
        keep, count, parent = extension.line_nms_forward(lanes, scores, overlap=1.2, top_k=top_k)
        expected_keep, expected_parent = suppressed_lanes(lanes, scores, 1.2, top_k)
        assert keep[:count].tolist() == expected_keep and parent.tolist() == expected_parent


def test_line_nms_of_no_lanes_keeps_none():
    keep, count, parent = extension.line_nms_forward(
        torch.zeros(0, 17), torch.zeros(0), overlap=1.0, top_k=4
    )
    assert keep.numel() == 0 and count == 0 and parent.numel() == 0


def test_shapes_are_computed_on_the_meta_device():
    image, rois = torch.empty(2, 4, 16, 16, device='meta'), torch.empty(5, 5, device='meta')
    assert mmcv.ops.roi_align(image, rois, (7, 7), 0.5, 0, 'avg', True).shape == (5, 4, 7, 7)
    layer = mmcv.ops.ModulatedDeformConv2dPack(4, 6, 3, padding=1).to('meta')
    assert layer(image).shape == (2, 6, 16, 16)


def test_autocast_keeps_the_type_of_the_map():
    image, rois = torch.rand(1, 4, 16, 16), torch.tensor([[0.0, 1, 1, 9, 12]])
    expected = mmcv.ops.roi_align(image, rois, (3, 3), 1.0, 2, 'avg', True)
    layer = mmcv.ops.ModulatedDeformConv2dPack(4, 4, 3, padding=1)
    with torch.autocast('cpu', torch.bfloat16):
        half = mmcv.ops.roi_align(image.bfloat16(), rois.bfloat16(), (3, 3), 1.0, 2, 'avg', True)
        kept = mmcv.ops.nms(rois[:, 1:], torch.ones(1), 0.5)[1]
        loss = mmcv.ops.roi_align(layer(image), rois.bfloat16(), (3, 3)).square().sum()
    loss.backward()
    assert half.dtype == torch.bfloat16
    assert torch.allclose(half.float(), expected, atol=0.02)
    assert kept.tolist() == [0]
    assert layer.weight.grad.isfinite().all()
    assert layer.weight.grad.any()


def test_compiled_graph_gives_the_same_values_and_gradients():
    def loss(image, offset, weight):
        features = mmcv.ops.deform_conv2d(image, offset, weight, 1, 1)
        rois = torch.tensor([[0.0, 1, 1, 6, 7]])
        return mmcv.ops.roi_align(features, rois, (2, 2), 1.0, 2, 'avg', True).square().sum()

    torch.manual_seed(0)
    tensors = [torch.rand(1, 2, 8, 8), torch.rand(1, 18, 8, 8), torch.rand(3, 2, 3, 3)]
    gradients = []
    for function in (loss, torch.compile(loss, backend='aot_eager')):
        inputs = [tensor.clone().requires_grad_() for tensor in tensors]
        gradients.append(torch.autograd.grad(function(*inputs), inputs))
    for eager, compiled in zip(*gradients):
        assert torch.allclose(eager, compiled, atol=1e-6)
