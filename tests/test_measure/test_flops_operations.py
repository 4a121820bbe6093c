"""Multiply-accumulates of operators, against numbers worked out by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mmflatten.measure.flops import count_operations
from mmflatten.measure.flops.rules import CONV, LINEAR, PRODUCT

META = torch.device('meta')


def tokens(*shape: int, device: torch.device | str = META) -> torch.Tensor:
    return torch.empty(*shape, device=device)


@pytest.mark.parametrize('device', ['meta', 'cpu'])
class TestFormulas:
    def test_convolution_counts_kernel_times_output(self, device: str) -> None:
        conv = nn.Conv2d(6, 8, 3, stride=2, padding=1, groups=2, device=device)
        counts = count_operations(conv, tokens(2, 6, 10, 7, device=device))
        assert counts.macs == counts.by_kind[CONV] == 2 * 8 * (5 * 4) * (6 // 2) * 9

    def test_transposed_convolution_counts_kernel_times_input(self, device: str) -> None:
        conv = nn.ConvTranspose2d(6, 8, 2, stride=2, device=device)
        assert (
            count_operations(conv, tokens(2, 6, 5, 4, device=device)).macs
            == 2 * 6 * (5 * 4) * 8 * 4
        )

    @pytest.mark.parametrize('bias', [True, False])
    def test_linear_layer_counts_weights_times_tokens(self, device: str, bias: bool) -> None:
        layer = nn.Linear(12, 5, bias=bias, device=device)
        counts = count_operations(layer, tokens(2, 7, 12, device=device))
        assert counts.macs == counts.by_kind[LINEAR] == 2 * 7 * 12 * 5

    def test_batched_product_of_activations(self, device: str) -> None:
        counts = count_operations(
            torch.matmul, tokens(2, 3, 7, 4, device=device), tokens(2, 3, 4, 5, device=device)
        )
        assert counts.macs == counts.by_kind[PRODUCT] == 6 * 7 * 4 * 5

    def test_einsum(self, device: str) -> None:
        q, k = tokens(2, 3, 7, 4, device=device), tokens(2, 3, 9, 4, device=device)
        assert count_operations(torch.einsum, 'bhnd,bhmd->bhnm', q, k).macs == 6 * 7 * 9 * 4

    def test_matrix_times_vector(self, device: str) -> None:
        assert (
            count_operations(
                torch.matmul, tokens(5, 6, device=device), tokens(6, device=device)
            ).macs
            == 30
        )

    @pytest.mark.parametrize('mask', [False, True])
    def test_sdpa_equals_the_explicit_form(self, device: str, mask: bool) -> None:
        q, k, v = (
            tokens(2, 3, size, width, device=device) for size, width in ((7, 4), (9, 4), (9, 8))
        )
        bias = torch.zeros(2, 3, 7, 9, device=device) if mask else None
        fused = count_operations(F.scaled_dot_product_attention, q, k, v, bias)
        explicit = count_operations(lambda: (q @ k.transpose(-2, -1)).softmax(-1) @ v)
        assert fused.macs == explicit.macs == fused.by_kind[PRODUCT] == 6 * 7 * 9 * (4 + 8)
        assert not fused.uncounted

    @pytest.mark.parametrize('need_weights', [False, True])
    def test_multihead_attention_in_eval_shows_projections_and_products(
        self, device: str, need_weights: bool
    ) -> None:
        attention = nn.MultiheadAttention(16, 4, batch_first=True, device=device).eval()
        x = tokens(2, 9, 16, device=device)
        counts = count_operations(attention, x, x, x, need_weights=need_weights)
        assert counts.by_kind[LINEAR] == 4 * 2 * 9 * 16 * 16
        assert counts.by_kind[PRODUCT] == 2 * 2 * 9 * 9 * 16
        assert not counts.uncounted

    def test_transformer_encoder_layer_in_eval(self, device: str) -> None:
        layer = nn.TransformerEncoderLayer(
            16, 4, dim_feedforward=24, batch_first=True, device=device
        ).eval()
        counts = count_operations(layer, tokens(2, 9, 16, device=device))
        assert counts.by_kind[LINEAR] == 2 * 9 * (4 * 16 * 16 + 2 * 16 * 24)
        assert counts.by_kind[PRODUCT] == 2 * 2 * 9 * 9 * 16
        assert counts.papers_convention() - counts.macs == 2 * 5 * 2 * 9 * 16

    def test_inference_mode_counts_the_same(self, device: str) -> None:
        model = (
            nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(2), nn.Linear(36, 5))
            .to(device)
            .eval()
        )
        x = tokens(1, 3, 8, 8, device=device)
        expected = count_operations(model, x)
        with torch.inference_mode():
            inferred = count_operations(model, x)
        assert inferred.by_kind == expected.by_kind
        assert expected.macs == 8 * 36 * 27 + 8 * 36 * 5


def test_linear_attention_grows_linearly_and_softmax_attention_quadratically() -> None:
    def linear(n: int) -> int:
        q, k, v = (tokens(1, 2, n, 8) for _ in range(3))
        return count_operations(lambda: q @ (k.transpose(-2, -1) @ v)).macs

    def softmax(n: int) -> int:
        q, k, v = (tokens(1, 2, n, 8) for _ in range(3))
        return count_operations(F.scaled_dot_product_attention, q, k, v).macs

    assert linear(4000) == 10 * linear(400)
    assert softmax(4000) == 100 * softmax(400)


def test_product_with_a_view_of_a_parameter_counts_as_linear_layer() -> None:
    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(tokens(5, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.bmm(x, self.weight.t()[None].expand(2, -1, -1))

    counts = count_operations(Module(), tokens(2, 7, 4))
    assert counts.by_kind == {LINEAR: 2 * 7 * 4 * 5}


def test_operator_without_a_formula_is_listed() -> None:
    counts = count_operations(lambda: torch.fft.rfft(tokens(4, 8)))
    assert counts.macs == 0
    assert counts.uncounted == {'aten::_fft_r2c': 1}


def test_elementwise_operators_are_listed_without_macs() -> None:
    x = tokens(1, 4, 6, 6)
    counts = count_operations(
        lambda: F.interpolate(F.gelu(x).softmax(1), scale_factor=2, mode='bicubic').mean()
    )
    assert counts.macs == 0
    assert counts.elementwise == {
        'aten::gelu': 144,
        'aten::_softmax': 144,
        'aten::upsample_bicubic2d': 576,
        'aten::mean': 1,
    }
    assert not counts.uncounted


def test_moving_data_costs_nothing() -> None:
    x = tokens(1, 4, 6, 6)
    counts = count_operations(
        lambda: torch.cat([x.roll(1, 2), F.pad(x, (1, 1))[..., 1:-1]]).flatten(2).clone()
    )
    assert not counts.by_kind and not counts.elementwise and not counts.uncounted


def test_counts_are_kept_by_module() -> None:
    model = nn.ModuleDict(
        dict(body=nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8)), head=nn.Linear(8, 2))
    ).to(META)
    model.forward = lambda x: model['head'](model['body'](x))
    counts = count_operations(model, tokens(3, 4))
    assert counts.of_module('body')[LINEAR] == 3 * (32 + 64)
    assert counts.of_module('body.1')[LINEAR] == 3 * 64
    assert counts.of_module('head')[LINEAR] == 3 * 16
    assert counts.macs == 3 * (32 + 64 + 16)


def test_counting_leaves_no_hook_behind() -> None:
    model = nn.Linear(4, 4, device=META)
    first = count_operations(model, tokens(2, 4))
    model(tokens(2, 4))
    assert first.macs == 2 * 16
    with pytest.raises(RuntimeError):
        count_operations(model, tokens(2, 5))
    assert count_operations(model, tokens(2, 4)).macs == 2 * 16
