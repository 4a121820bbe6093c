"""The stored results of the battery, written again from further runs."""

import pandas as pd
import pytest

references = pytest.importorskip('references')


def test_new_runs_replace_their_own_rows_alone():
    columns = ['attention', 'task', 'seed', 'accuracy']
    stored = pd.DataFrame(
        [
            ('b', 'count', 0, 1.0),
            ('b', 'count', 1, 2.0),
            ('gone', 'count', 0, 3.0),
            ('a', 'count', 0, 4.0),
        ],
        columns=columns,
    )
    new = pd.DataFrame([('b', 'count', 0, 5.0), ('a', 'count', 1, 6.0)], columns=columns)
    found = references.merge(stored, new, ['a', 'b'])
    assert found.to_numpy().tolist() == [
        ['a', 'count', 0, 4.0],
        ['a', 'count', 1, 6.0],
        ['b', 'count', 1, 2.0],
        ['b', 'count', 0, 5.0],
    ]
