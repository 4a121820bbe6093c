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
