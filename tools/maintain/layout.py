"""Layout of the package: floors, from the bottom up, and its maximum number of lines.

A module imports only from its own floor and the floors below. `tests/test_install/test_imports.py` checks both tables,
and `floors.py` draws the floors.
"""
FLOORS = (
    ('version', 'requirements', 'config_library', 'text', 'json_files', 'building', 'locate', 'files',
     'ops', 'structures'),
    ('registry',),
    ('classes', 'config_files', 'models', 'evaluation', 'console', 'checkpoints'),
    ('datasets', 'timm'),
    ('tasks',),
    ('measure',),
    ('engine',),
    ('recipes', 'export', 'linearize'),
    ('predict', 'custom_data', 'studies'),
    ('explain', 'results'),
    ('doctor',),
    ('report', 'app'),
    ('hub',),
    ('apis',),
    ('cli',),
    ('__main__',),
)
MODEL_FLOORS = (('layers',), ('attention',), ('backbones',), ('detection', 'stereo'))
TOTAL = 35422  # lines of Python and templates, at most
