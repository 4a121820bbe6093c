"""Layout of the package: floors, from the ground up, and the largest number of lines of each room.

A module imports from its own floor or from one below. `tests/test_install/test_imports.py` checks both tables, and
`floors.py` draws the floors.
"""
FLOORS = (
    ('version', 'requirements', 'driver', 'config_library', 'text_table', 'building', 'locate', 'ops', 'structures'),
    ('registry', 'checkpoints', 'errors'),
    ('config_files', 'models', 'evaluation', 'console'),
    ('datasets', 'timm'),
    ('tasks',),
    ('measure',),
    ('engine',),
    ('recipes', 'export'),
    ('predict', 'own_data', 'studies'),
    ('explain', 'results', 'apis'),
    ('doctor',),
    ('report', 'app'),
    ('cli',),
    ('__main__',),
)
MODEL_FLOORS = (('layers',), ('attention',), ('backbones',), ('detection', 'stereo'))
# Lines of Python and templates. Raise a number only in a commit that says what users get for it.
BUDGETS = {
    'ops': 3650, 'models': 6460, 'checkpoints': 950, 'timm': 370, 'tasks': 450, 'datasets': 2990, 'own_data': 1180,
    'engine': 2150, 'predict': 840, 'explain': 1380, 'measure': 1450, 'results': 1500, 'report': 1840, 'recipes': 910,
    'studies': 2290, 'export': 680, 'app': 510, 'cli': 1790,
}
TOTAL = 32750
