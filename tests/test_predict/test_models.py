"""Models by name, and deprecated names of `mmflatten.apis`."""

import pytest
import torch

from mmflatten.apis import get_model, list_models
from mmflatten.cli.models import main as models

NAME = 'flatten-swin-nano_digits'


def test_list_models_filters_by_pattern_and_task():
    assert NAME in list_models() and NAME in list_models('*nano_digits', task='classification')
    assert not any(
        'classif' in name or 'retinanet' in name
        for name in list_models('*digits*', task='classification')
    )
    with pytest.raises(ValueError, match='task.*stereo.*sorting'):
        list_models(task='sorting')


def test_get_model_loads_a_checkpoint(tmp_path):
    first = get_model(NAME)
    torch.save(first.state_dict(), tmp_path / 'weights.pth')
    second = get_model(
        NAME, pretrained=tmp_path / 'weights.pth', **{'backbone.drop_path_rate': 0.5}
    )
    assert not second.training
    assert all(
        torch.equal(first.state_dict()[key], value) for key, value in second.state_dict().items()
    )


def test_unknown_name_error_suggests_similar_names(capsys):
    with pytest.raises(FileNotFoundError, match=f'config.*flatten-swin-nano_digit.*{NAME}'):
        get_model('flatten-swin-nano_digit')
    assert models(['no-such-*']) == 1
    assert 'no-such-*' in capsys.readouterr().err.splitlines()[-1]


def test_models_command_lists_names(capsys):
    assert models(['*nano_digits', '--task', 'classification']) == 0
    assert NAME in capsys.readouterr().out
