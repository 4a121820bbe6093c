"""Accuracies over costs."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
from PIL import Image

SCRIPTS = Path(__file__).parents[2] / 'scripts'


def run(name, *arguments):
    return subprocess.run(
        [sys.executable, SCRIPTS / name, *map(str, arguments)], capture_output=True, text=True
    )


def test_accuracies_of_the_papers_and_own_ones_are_drawn_over_costs(tmp_path):
    pd.DataFrame(
        dict(
            name=['configs/a/swin-t_8xb128_in1k.py', 'flatten-swin-t_8xb128_in1k'],
            median_s=[0.2, 0.1],
            batch=[2, 1],
        )
    ).to_csv(tmp_path / 'speed.csv')
    lines = 'Swin=swin-t_8xb128_in1k', 'FLatten=flatten-swin-t_8xb128_in1k'
    one, two = tmp_path / 'one.png', tmp_path / 'two.png'
    assert run('accuracy_curves.py', one, *lines, '--speed', tmp_path / 'speed.csv').returncode == 0
    (tmp_path / 'own.csv').write_text(
        'config,top1\nswin-t_8xb128_in1k,80\nflatten-swin-t_8xb128_in1k,81\n'
    )
    assert run('accuracy_curves.py', two, *lines, '--results', tmp_path / 'own.csv').returncode == 0
    assert Image.open(one).width > Image.open(two).width
    failed = run('accuracy_curves.py', tmp_path / 'x.png', 'A=nothing')
    assert (
        failed.returncode == 2
        and 'A: expected models with a top-1 and GFLOPs, got nothing' in failed.stderr
    )
