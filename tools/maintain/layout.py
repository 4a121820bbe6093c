"""Layout of the package: layers, from the bottom up.

A module imports only from its own layer and the layers below. `tests/test_install/test_imports.py`
checks it.
"""

LAYERS = (
    (
        'version',
        'deprecation',
        'locks',
        'requirements',
        'text',
        'data_folders',
        'ops',
        'structures',
        'untrusted',
        'threads',
        'allocator',
    ),
    ('registry', 'config', 'console', 'checkpoints'),
    ('models', 'evaluation'),
    ('datasets', 'timm'),
    ('tasks',),
    ('measure',),
    ('engine',),
    ('export',),
    ('runtime',),
    ('predict', 'custom_data'),
    ('explain', 'results'),
    ('hub',),
    ('apis',),
    ('cli',),
    ('__main__',),
)
MODEL_LAYERS = (
    ('layers',),
    ('attention',),
    ('backbones',),
    ('detection', 'stereo'),
    ('mask_head',),
)
