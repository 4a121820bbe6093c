"""Build digit scenes of 320 and 640 pixels that show more, not larger, digits than those of 160,
and others of 160.

Test images of `lab/configs/nano/mask-rcnn_deit-nano_digits-sizes.py`; python
lab/scripts/larger_scenes.py [DATA].
"""

import sys
from dataclasses import replace
from pathlib import Path

from mmflatten.datasets.scenes.build import SceneOptions, build_scenes
from mmflatten.datasets.scenes.digits import DIGITS, load_glyphs

SOURCE = replace(DIGITS, load_objects=lambda split: replace(load_glyphs(split), reference=160))

if __name__ == '__main__':
    for name, size, number, seed in (
        ('320', 320, 60, 0),
        ('640', 640, 20, 0),
        ('choice', 160, 100, 1),
    ):
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else 'data') / f'digits-{name}'
        print(
            folder, build_scenes(folder, SceneOptions(1, number, size, seed), SOURCE)['instances']
        )
