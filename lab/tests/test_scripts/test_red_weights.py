"""The weight of the attention on red tokens, where it is known."""

from pathlib import Path

import pandas as pd
import pytest
import red_weights
import torch

from mmflatten.engine.setup import build_runner, load_config
from mmflatten_lab.datasets import GarmentCanvases

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / 'configs/nano/deit-nano_canvases-learned.py'


class Layer:
    """An attention with given weights of every query, `(h, M)`."""

    def __init__(self, weights_hM: torch.Tensor) -> None:
        self.weights_hM = weights_hM

    def rows(self, queries: list[int]) -> torch.Tensor:
        return self.weights_hM.expand(len(queries), -1, -1)


def test_the_weight_on_tokens_is_a_share_of_the_absolute_weights():
    layer = Layer(torch.tensor([[0.5, -0.5, 1.0], [3.0, 0.0, 1.0]]))
    red = torch.tensor([True, True, False])
    share = red_weights.weight_on(layer, red, torch.arange(2))
    assert share == pytest.approx((0.5 + 0.75) / 2)
    assert red_weights.weight_on(Layer(torch.zeros(1, 3)), red, torch.arange(2)) == 0


def test_red_tokens_are_those_of_the_red_garments(fashion_files):
    for growth, garments in (('more', 1), ('kept', 4)):
        dataset = GarmentCanvases('val', [(4, 1, 2, growth)], 'far', folder=str(fashion_files))
        sample = dataset[0]
        red = red_weights.red_tokens(sample['inputs'])
        cells = red.view(4, 7, 4, 7).any(3).any(1)
        assert int(cells.sum()) == garments
        assert not (red & (sample['data_samples'].cell_labels < 0)).any()


@pytest.fixture
def run(tmp_path, fashion_files):
    """Make the folder of a finished run with random weights, of one attention."""

    def make(attention: str) -> Path:
        config = load_config(str(CONFIG), work_dir=str(tmp_path / attention))
        config.model.backbone.linear_attention = dict(type=attention)
        dataset = dict(folder=str(fashion_files), canvases=[(2, 1, 3), (4, 1, 3, 'kept')])
        config.test_dataloader.dataset.update(dataset)
        folder = tmp_path / attention
        (folder / 'train').mkdir(parents=True)
        config.dump(str(folder / 'config.py'))
        model = build_runner(config).model
        for steps in (9, 10):
            torch.save(model.state_dict(), folder / f'train/iter_{steps}.pth')
            torch.nn.init.zeros_(model.head.fc.weight)
        return folder

    return make


def test_the_mean_has_the_share_of_the_red_tokens_in_each_block(run, tmp_path, capsys):
    folder = run('MeanAttention')
    path = tmp_path / 'red.csv'
    red_weights.main([str(folder), '--canvases', '2', '--queries', '3', '--csv', str(path)])
    table = pd.read_csv(path)
    assert table.kind.tolist() == ['196', '784_kept']
    for block in range(4):
        assert table[f'block {block}'].tolist() == pytest.approx(table.red.tolist(), abs=0.01)
    # The newest checkpoint, whose head answers the same for every token.
    assert set(table.right) <= {0.0, 50.0, 100.0}
    printed = capsys.readouterr().out
    assert '784_kept' in printed and f'{table.red[0]:.1f}' in printed


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(ValueError, match='RUN: expected a folder with config.py'):
        red_weights.main([str(tmp_path)])
