"""Picture of lab/docs/third_study.md, from its table: python lab/scripts/third_study.py larger.csv larger.png."""
import sys

import pandas as pd

from mmflatten.results.drawing import save_png
from mmflatten.results.figures import Lines

TOKENS = [49, 196, 784, 3136]
COLUMNS = [f'metrics.cells/accuracy_{number}' for number in TOKENS]

means = pd.read_csv(sys.argv[1]).groupby(['levels.task', 'levels.attention'], sort=False)[COLUMNS].mean()
save_png(sys.argv[2], {
    task: Lines({name: (range(len(TOKENS)), row) for (_, name), row in rows.iterrows()},
                'trained at 196 tokens; tested at ' + ', '.join(map(str, TOKENS)), '% right', mean='none')
    for task, rows in means.groupby(level=0, sort=False)})
