"""Layout of the package: floors, from the bottom up, and the maximum numbers of lines.

A module imports only from its own floor and the floors below. `tests/test_install/test_imports.py` checks both tables,
and `floors.py` draws the floors.
"""
FLOORS = (
    ('version', 'requirements', 'config_library', 'text', 'json_files', 'building', 'locate', 'user_files',
     'ops', 'structures'),
    ('registry', 'checkpoints'),
    ('classes', 'config_files', 'models', 'evaluation', 'console'),
    ('datasets', 'timm'),
    ('tasks',),
    ('measure',),
    ('engine',),
    ('recipes', 'export', 'hub'),
    ('predict', 'own_data'),
    ('explain', 'results', 'apis'),
    ('doctor',),
    ('report', 'publish'),
    ('cli',),
    ('__main__',),
)
MODEL_FLOORS = (('layers',), ('attention',), ('backbones',), ('detection', 'stereo'))
# Lines of Python, JavaScript and HTML, at most: distribution -> folders and number. What is new pays by removing.
LINES = {'mmflatten': (('mmflatten',), 30100), 'lab': (('lab/mmflatten_lab',), 5000),
         'scripts': (('tools/maintain', 'lab/scripts'), 3500)}
FILE, FUNCTION = 250, 40  # lines
