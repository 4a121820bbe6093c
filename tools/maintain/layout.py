"""Layout of the package: layers, from the bottom up, and the maximum numbers of lines.

A module imports only from its own layer and the layers below. `tests/test_install/test_imports.py` checks both.
"""
LAYERS = (
    ('version', 'requirements', 'text', 'files', 'data_folders', 'ops', 'structures'),
    ('registry', 'config', 'console', 'checkpoints'),
    ('models', 'evaluation'),
    ('datasets', 'timm'),
    ('tasks',),
    ('measure',),
    ('engine',),
    ('export',),
    ('predict', 'custom_data'),
    ('explain', 'results'),
    ('hub',),
    ('apis',),
    ('cli',),
    ('__main__',),
)
MODEL_LAYERS = (('layers',), ('attention',), ('backbones',), ('detection', 'stereo'))
# Lines of Python, JavaScript and HTML, at most: distribution -> folders and number. What is new pays by removing.
LINES = {'mmflatten': (('mmflatten',), 26000), 'lab': (('lab/mmflatten_lab',), 5000),
         'scripts': (('tools/maintain', 'lab/scripts'), 3300)}
FILE, FUNCTION = 250, 40  # lines, of a function without its docstring
