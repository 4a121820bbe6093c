"""Examples of papers without a model, and accuracies over costs."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import paper_examples
import pytest
from PIL import Image

SCRIPTS = Path(__file__).parents[2] / 'scripts'


def run(name, *arguments):
    return subprocess.run(
        [sys.executable, SCRIPTS / name, *map(str, arguments)], capture_output=True, text=True
    )


def test_four_keys_have_the_scores_that_flatten_prints():
    assert paper_examples.scores(1) == pytest.approx([0.37, 0.19, 0.26, 0.18], abs=0.005)
    assert paper_examples.scores(3) == pytest.approx([0.75, 0.11, 0.09, 0.05], abs=0.005)


def test_rings_of_focal_attention_are_squares_of_pooled_windows():
    points = paper_examples.coverage()
    assert points[0] == (49, 49) and all(
        covered == round(covered**0.5) ** 2 for _, covered in points
    )
    (tokens, covered), (more, outer) = points[-2:]
    assert 0 <= (more - tokens) - (outer - covered) / 64 < 1


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
