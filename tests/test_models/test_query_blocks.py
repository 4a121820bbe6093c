"""Blocks for queries and tokens: attention by letters."""

import pytest
import torch

from mmflatten.models.mask_head.query_blocks import query_blocks

OPTIONS = dict(mixers=None, embed_dims=8, hidden_dims=12, num_heads=2, grid_size=(3, 4))


def test_letters_choose_the_attention_of_each_block():
    agent = dict(type='AgentAttention', num_agents=4)
    blocks = query_blocks(num_blocks=3, attn_types='SLA', **dict(OPTIONS, mixers=dict(A=agent)))
    names = [type(block.attn.fn).__name__ for block in blocks]
    assert names == ['SoftmaxAttention', 'FocusedLinearAttention', 'AgentAttention']
    assert [block.ffn.fn.fc1.out_features for block in blocks] == [12, 12, 12]
    x = torch.randn(2, 5 + 12, 8)  # five queries before the tokens
    for block in blocks:
        x = block(x, (3, 4), None)
    assert x.shape == (2, 17, 8) and x.isfinite().all()


def test_one_letter_is_that_of_all_blocks():
    blocks = query_blocks(num_blocks=2, attn_types='L', **OPTIONS)
    assert {type(block.attn.fn).__name__ for block in blocks} == {'FocusedLinearAttention'}


@pytest.mark.parametrize('letters', ['X', 'SSS', ''])
def test_invalid_letters_are_rejected(letters):
    with pytest.raises(ValueError, match='^attn_types'):
        query_blocks(num_blocks=2, attn_types=letters, **OPTIONS)
