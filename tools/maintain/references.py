"""Write mmflatten/studies/references.csv, the results that fingerprints show, from a run of studies/battery.yaml.

    python tools/maintain/references.py work_dirs/studies/battery

Attentions that did not run there keep their rows.
"""
import sys
from pathlib import Path

import pandas as pd

from mmflatten.config_library import library_root
from mmflatten.studies.fingerprint import REFERENCES, accuracies
from mmflatten.studies.folder import StudyFolder, collect_runs
from mmflatten.studies.study_file import read_study


def main(folder: str) -> None:
    study = read_study(library_root() / 'studies' / 'battery.yaml')
    table = accuracies(collect_runs(study, StudyFolder(Path(folder))))
    whole = table.groupby('attention').task.nunique()
    table = table[table.attention.isin(whole[whole == len(study.factors['task'])].index)]
    stored = pd.read_csv(REFERENCES)
    table = pd.concat([stored[~stored.attention.isin(table.attention)], table])
    table.round(2).to_csv(REFERENCES, index=False)
    print(f'{REFERENCES}: {table.attention.nunique()} attentions, {len(table)} runs')


if __name__ == '__main__':
    main(sys.argv[1])
