"""Write `synthetic_tasks/references.csv`, the results that fingerprints show, from a run of
`suite.yaml` beside it.

    python lab/scripts/references.py work_dirs/studies/suite

Rows of other runs stay; attentions of which a task is not finished there are left out.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from mmflatten_lab.studies.fingerprint import REFERENCES, SUITE, accuracies
from mmflatten_lab.studies.folder import StudyFolder, collect_runs
from mmflatten_lab.studies.study_file import read_study


def merge(stored: pd.DataFrame, new: pd.DataFrame, attentions: Sequence[str]) -> pd.DataFrame:
    """Replace stored runs by new ones of the same attention, task and seed; keep these attentions,
    in their order.
    """
    table = pd.concat([stored, new]).drop_duplicates(['attention', 'task', 'seed'], keep='last')
    table = table[table.attention.isin(attentions)]
    return table.sort_values(
        'attention', key=lambda names: names.map(attentions.index), kind='stable'
    )


def main(folder: str) -> None:
    study = read_study(SUITE)
    table = accuracies(collect_runs(study, StudyFolder(Path(folder))))
    whole = table.groupby('attention').task.nunique()
    table = table[table.attention.isin(whole[whole == len(study.factors['task'])].index)]
    table = merge(pd.read_csv(REFERENCES), table, list(study.factors['attention']))
    table.round(2).to_csv(REFERENCES, index=False)
    print(f'{REFERENCES}: {table.attention.nunique()} attentions, {len(table)} runs')


if __name__ == '__main__':
    main(sys.argv[1])
