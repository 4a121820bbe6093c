"""Import every module of `mmflatten.ops` and run every operator once, forward and backward.

Run as a script in an environment with only torch and einops. Operators name their parameters alike,
so each gets what its required parameters are called; an operator with a new name for one fails here
until `VALUES` has it.
"""

import contextlib
import importlib
import inspect
import pkgutil

import torch

from mmflatten import ops

B, H, W, N, C, HEADS, D = 2, 6, 6, 36, 12, 3, 4
WINDOW = (3, 3)


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, requires_grad=True)


heads, tokens, grid = rand(B, HEADS, N, D), rand(B, N, C), rand(B, C, H, W)
offsets = torch.tensor(ops.neighbor_offsets(3, 1))
positions = ops.window_positions((H // 3, W // 3), 3, offsets)
VALUES = {
    **dict.fromkeys(
        (
            'q_BhNd',
            'k_BhMd',
            'k_BhNd',
            'k_BhSd',
            'v_BhMe',
            'v_BhNd',
            'v_BhSe',
            'c_BhNd',
            'b_BhMd',
            'x_BhNd',
            'w_BhNd',
            'v_BhMd',
            'v_BhNe',
            'x',
            'tensors',
        ),
        heads,
    ),
    **dict.fromkeys(
        ('agents_Bhad', 'q_landmarks_Bhad', 'k_landmarks_Bhad', 'q_Bhad', 'pooled_Bhae'),
        rand(B, HEADS, 4, D),
    ),
    **dict.fromkeys(('q_BNC', 'k_BMC', 'v_BMC', 'k_BNC', 'v_BNC', 'x_BNC'), tokens),
    **dict.fromkeys(
        ('left_BCHW', 'right_BCHW', 'score_BDHW', 'q_BCHW', 'k_BCHW', 'v_BCHW', 'x_BCHW'), grid
    ),
    **dict.fromkeys(('q_BRnC', 'k_BRnC'), rand(B, 4, 9, C)),
    'routes_BRt': torch.tensor([[[0, 1]] * 4] * B),
    **dict.fromkeys(('q_BhRnd', 'k_BhRnd', 'v_BhRnd'), rand(B, HEADS, 4, 9, D)),
    **dict.fromkeys(('value_hdd', 'gate_hdd', 'out_hdd'), rand(HEADS, D, D)),
    **dict.fromkeys(('q_BNs', 'k_BNs', 'logits_BNs'), rand(B, N, 5)),
    **dict.fromkeys(('q_B1Ns', 'k_B1Ns'), rand(B, 1, N, 5)),
    'weight_BhN1': rand(B, HEADS, N, 1),
    'state_weight': rand(2 * 7, C),
    'out_weight': rand(C, 7),
    'temperature_h1': rand(HEADS, 1),
    'weight_C1yx': rand(C, 1, 3, 3),
    'mixing_bb': rand(4, 4),
    'kv_shape': (H, W),
    'decay_h': rand(HEADS),
    'features_fd': rand(8, D),
    'table_1NC': rand(1, N, C),
    'table_1hnK': rand(1, HEADS, 9, len(offsets)),
    'table_Lh': rand(25, HEADS),
    'keys_WM': torch.arange(N).view(4, 9),
    'keys_WK2': positions,
    'positions_WK2': positions,
    'offsets_K2': offsets,
    'queries_Wn2': positions[:, :9],
    'windows': rand(B * 4, 9, C),
    'num_heads': HEADS,
    'num_shifts': 4,
    'focusing_factor': 3.0,
    'operator': ops.softmax_attention,
    'hw_shape': (H, W),
    'map_size': (H, W),
    'size': (H, W),
    'new_size': (4, 5),
    'grid': (H // 3, W // 3),
    'number': 8,
    'width': D,
    'length': H,
    'side': 3,
    'like': rand(C),
    'periods_p': torch.ones(1),
    'exponent': rand(1, HEADS, 1, D),
    'over_tokens': True,
    'rescale_C': rand(C),
    'floor': 1e-6,
    'topk': 2,
    'scale': 0.5,
    'level': 1,
    'focal_window': 3,
    'wrap': True,
    'padding': True,
    'device': torch.device('cpu'),
}
BY_OPERATOR = {
    'window_partition': dict(x=rand(B, H, W, C), window_size=WINDOW),
    'window_reverse': dict(window_size=WINDOW),
    'pad_and_roll': dict(x_BHWC=rand(B, 4, 5, C)),
    'roll_and_crop': dict(x_BHWC=rand(B, H, W, C)),
    'padded_window_mask': dict(window_size=WINDOW, shift=(1, 1)),
    'shifted_window_mask': dict(window_size=WINDOW, shift=(1, 1)),
    'visible_keys': dict(shift=1),
    'neighbor_offsets': dict(window=3, expand=1),
    'window_order': dict(window=3),
    'window_positions': dict(window=3),
    'resize_neighbor_bias': dict(window=3, expand=1, new_window=5, new_expand=2),
    'resize_relative_position_bias': dict(window=(3, 3), new_window=(5, 5)),
}


def run(name: str) -> None:
    operator = getattr(ops, name)
    parameters = inspect.signature(operator).parameters.values()
    values = {**VALUES, **BY_OPERATOR.get(name, {})}
    arguments = [
        values[p.name] for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY
    ]
    options = {
        p.name: values[p.name]
        for p in parameters
        if p.default is p.empty and p.kind is p.KEYWORD_ONLY
    }
    result = operator(*arguments, **options)
    if isinstance(result, contextlib.AbstractContextManager):
        with result:
            return
    for tensor in result if isinstance(result, tuple) else (result,):
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            assert tensor.isfinite().all(), name
            tensor.sum().backward(retain_graph=True)


for module in pkgutil.walk_packages(ops.__path__, f'{ops.__name__}.'):
    importlib.import_module(module.name)
for name in ops.__all__:
    run(name)
print(f'{len(ops.__all__)} operators run')
