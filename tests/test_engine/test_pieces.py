"""Checkpoints in pieces as folders: put together, or refused when one piece is not whole."""
import json
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

from mmflatten.engine.checkpoints.files import newest_checkpoint, what_is_wrong
from mmflatten.engine.checkpoints.reading import load_from_local


@pytest.fixture
def folder(tmp_path) -> Path:
    """A weight of 5 x 2 in pieces of three and two rows, each in a file of its own."""
    folder = tmp_path / 'epoch_2.sharded'
    folder.mkdir()
    weight, places = torch.arange(10.).view(5, 2), []
    for start, name in ((0, '__0_0.distcp'), (3, '__1_0.distcp')):
        torch.save(weight[start:start + 3].clone(), folder / name)
        places.append([[start, 0], name, 0, (folder / name).stat().st_size])
    state = OrderedDict(weight=torch.empty(5, 2, device='meta'), count=torch.tensor(4))
    state._metadata = OrderedDict()
    torch.save(dict(meta=dict(iter=7), state_dict=state), folder / 'rest.pth')
    (folder / 'index.json').write_text(json.dumps([places]))
    return folder


def test_pieces_are_put_together(folder):
    assert what_is_wrong(folder) is None and newest_checkpoint(folder.parent) == folder
    whole = load_from_local(str(folder))
    assert whole['meta'] == dict(iter=7) and whole['state_dict']['count'] == 4
    assert torch.equal(whole['state_dict']['weight'], torch.arange(10.).view(5, 2))


@pytest.mark.parametrize('change', [
    lambda places: None, lambda places: {}, lambda places: [places], lambda places: [], lambda places: [*places] * 2,
    lambda places: [places[0][:1]], lambda places: [[places[0][0]] * 2], lambda places: [[5]],
    lambda places: [[[['0', 0], *places[0][0][1:]], places[0][1]]]])
def test_an_index_that_does_not_fill_the_tensors_is_passed_over(folder, change):
    index = folder / 'index.json'
    index.write_text(json.dumps(change(json.loads(index.read_text()))))
    assert 'index.json' in what_is_wrong(folder)
    earlier = folder.parent / 'epoch_1.pth'
    torch.save(dict(state_dict={}), earlier)
    assert newest_checkpoint(folder.parent) == earlier


@pytest.mark.parametrize('name', ['index.json', 'rest.pth', '__1_0.distcp'])
@pytest.mark.parametrize('damage', [lambda data: None, lambda data: data[:-9]])
def test_a_folder_that_is_not_whole_is_passed_over(folder, name, damage):
    data = damage((folder / name).read_bytes())
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)
    assert name in what_is_wrong(folder)
    earlier = folder.parent / 'epoch_1.pth'
    torch.save(dict(state_dict={}), earlier)
    assert newest_checkpoint(folder.parent) == earlier
