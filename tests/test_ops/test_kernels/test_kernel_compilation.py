"""Every kernel compiles for the supported GPUs, which needs no GPU; its instructions and registers are counted."""
import pytest
import torch

from mmflatten.ops.kernels import has_triton

if not has_triton():
    pytest.skip('Triton 3.6 or newer is not installed, which has no wheels outside Linux', allow_module_level=True)

from gpu_sheet.compiled import attention_launches, compile_launch, convolution_launches, counts, per_element

from mmflatten.ops.kernels.tile_table import INSTRUCTIONS, is_cheaper

SHARED = 99 * 1024  # bytes per program on compute capability 8.6 and 8.9, which have the least
FORWARD, BACKWARD = 3.5, 8.  # warp instructions per channel of a token


def counted(launches, capability=90):
    """Compile launches; return the sum of the instructions per channel, and the counts of each kernel."""
    kernels = {call.name: (call, counts(compile_launch(call, capability))) for call in launches}
    total = sum(per_element(call, kernels[call.name][1]) for call in launches)
    return total, {name: count for name, (_, count) in kernels.items()}


def check_fits(kernels):
    for name, count in kernels.items():
        assert count.spilled == 0 and count.registers <= 255 and count.shared <= SHARED, (name, count)


@pytest.mark.parametrize('feature_map, width', [
    ('focused', 32), *(pytest.param(*case, marks=pytest.mark.full) for case in (
        ('focused', 64), ('relu', 32), ('relu', 64)))])
def test_attention_kernels_stay_below_instruction_limits(feature_map, width):
    forward, backward = attention_launches(feature_map, 3, width)
    (ours, kernels), (gradients, more) = counted(forward), counted(backward)
    check_fits(kernels | more)
    assert kernels['state_kernel'].barriers <= 2
    assert ours <= FORWARD and gradients <= BACKWARD
    assert ours + gradients <= INSTRUCTIONS[feature_map]  # what the choice between kernels and eager assumes


@pytest.mark.parametrize('heads, width', [(24, 32), *(pytest.param(*case, marks=pytest.mark.full) for case in (
    (3, 32), (6, 32), (12, 32), (1, 64), (2, 64), (5, 64), (8, 64)))])
def test_number_of_heads_changes_only_the_norms(heads, width):
    def of_norms(heads):
        return attention_launches('focused', heads, width)[0][:2]

    others = [[(call.name, {name: x for name, x in call.arguments.items() if isinstance(x, str | bool)})
               for call in attention_launches('focused', number, width)[0][2:]] for number in (1, heads)]
    assert others[0] == others[1]  # the same machine code, because `heads` is not a constant of the kernels
    total, kernels = counted(of_norms(heads))
    check_fits(kernels)
    assert total < 2.2


@pytest.mark.full
@pytest.mark.parametrize('capability', [80, 90])
@pytest.mark.parametrize('dtype', [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize('feature_map', ['focused', 'relu', 'elu'])
@pytest.mark.parametrize('width', [16, 24, 32, 48, 64])
def test_attention_kernels_fit_the_registers(feature_map, width, dtype, capability):
    forward, backward = attention_launches(feature_map, 3, width, dtype, masked=True)
    check_fits(counted(forward + backward, capability)[1])


@pytest.mark.parametrize('channels, side, groups, dtype', [
    (96, 5, 3, torch.bfloat16), *(pytest.param(*case, marks=pytest.mark.full) for case in (
        (64, 3, 1, torch.float32), (64, 5, 1, torch.float16), (320, 7, 5, torch.bfloat16)))])
def test_convolution_kernels_fit_the_registers(channels, side, groups, dtype):
    check_fits(counted(convolution_launches(channels, side, groups, dtype)[::2])[1])


@pytest.mark.parametrize('tokens, width, cheaper', [(3136, 32, True), (49, 32, True), (196, 24, True), (2, 32, False)])
def test_kernels_are_chosen_where_counted_instructions_beat_bytes_of_eager(tokens, width, cheaper):
    assert is_cheaper(tokens, width, 'focused') == cheaper
