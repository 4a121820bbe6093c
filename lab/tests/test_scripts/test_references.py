"""The stored results of the battery, written again from further runs."""
import pandas as pd
import pytest

references = pytest.importorskip('references')


def test_new_runs_replace_their_own_rows_alone():
    columns = ['attention', 'task', 'seed', 'accuracy']
    stored = pd.DataFrame([('b', 'count', 0, 1.), ('b', 'count', 1, 2.), ('gone', 'count', 0, 3.),
                           ('a', 'count', 0, 4.)], columns=columns)
    new = pd.DataFrame([('b', 'count', 0, 5.), ('a', 'count', 1, 6.)], columns=columns)
    found = references.merge(stored, new, ['a', 'b'])
    assert found.to_numpy().tolist() == [['a', 'count', 0, 4.], ['a', 'count', 1, 6.], ['b', 'count', 1, 2.],
                                         ['b', 'count', 0, 5.]]
