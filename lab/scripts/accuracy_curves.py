"""Draw ImageNet accuracy over FLOPs and over measured time (FLatten Transformer, Figures 2 and 6).

    mmflatten benchmark configs/flatten_swin/{,flatten-}swin-{t,s}_8xb128_in1k.py --csv speed.csv
    python lab/scripts/accuracy_curves.py curves.png --speed speed.csv \\
        Swin=swin-t_8xb128_in1k,swin-s_8xb128_in1k
        FLatten-Swin=flatten-swin-t_8xb128_in1k,flatten-swin-s_8xb128_in1k

Accuracies are those that papers print (docs/model_zoo.csv), which this project has not trained, or
your own: `--results FILE.csv` with columns `config`, such as swin-t_8xb128_in1k, and `top1`. FLOPs
are counted. Papers print different accuracies of some models; `--paper` names that whose figures
are taken where it has any (default: flatten).
"""

import argparse
from pathlib import Path

import pandas as pd

from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines

ZOO = Path(__file__).parents[2] / 'docs' / 'model_zoo.csv'


def stems(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """Index a table by the names of configs."""
    return table.set_index(table[column].map(lambda path: Path(path).stem)).rename_axis('config')


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('figure', type=Path, help='PNG to write')
    parser.add_argument(
        'lines',
        nargs='+',
        metavar='LABEL=CONFIG,CONFIG',
        help='models of a line, from small to large',
    )
    parser.add_argument(
        '--paper', default='flatten', help='as in the column `paper` of docs/model_zoo.csv'
    )
    parser.add_argument('--speed', type=Path, help='CSV of `mmflatten benchmark`')
    parser.add_argument('--results', type=Path, help='CSV of your own accuracies')
    args = parser.parse_args()
    zoo = pd.read_csv(ZOO).query('task == "classification"')
    zoo = zoo.assign(paper_top1=pd.to_numeric(zoo.paper_top1, errors='coerce')).dropna(
        subset='paper_top1'
    )
    zoo = stems(
        zoo.sort_values(
            'paper', key=lambda papers: papers != args.paper, kind='stable'
        ).drop_duplicates('config'),
        'config',
    )
    top1 = pd.read_csv(args.results).set_index('config').top1 if args.results else zoo.paper_top1
    costs = {'GFLOPs': zoo.flops / 1e9}
    if args.speed:
        speed = stems(pd.read_csv(args.speed), 'name')
        costs['ms for an image, measured'] = 1e3 * speed.median_s / speed.batch
    names = dict(line.partition('=')[::2] for line in args.lines)
    panels = {}
    for axis, cost in costs.items():
        for label, configs in names.items():
            if missing := sorted({*configs.split(',')} - {*(top1.index.intersection(cost.index))}):
                parser.error(
                    f'{label}: expected models with a top-1 and {axis}, got {", ".join(missing)}'
                )
        title = (
            f'{"your results" if args.results else "figures of the papers"}, over {axis.split()[0]}'
        )
        panels[title] = Lines(
            {
                label: (cost[configs.split(',')].tolist(), top1[configs.split(',')].tolist())
                for label, configs in names.items()
            },
            axis,
            'top-1 (%)',
            markers=True,
        )
    save_png(args.figure, panels)


if __name__ == '__main__':
    main()
