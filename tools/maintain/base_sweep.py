"""Try the configs that mmdet, mmseg and mmpretrain ship as `mmflatten init --base`.

    python tools/maintain/base_sweep.py --out bases.csv
    python tools/maintain/base_sweep.py --out bases.csv --match 'mmdet/.*yolox' --every 5
    python tools/maintain/base_sweep.py --out bases.csv --summary

Each config gets a tiny data set of its task. The outcome is `written` if `mmflatten init` writes a
config, which includes a batch of each loader, and the number of classes of every head is right;
`refused` if it names a field; `failed` otherwise. Configs in the CSV file are not tried again.
"""

import argparse
import csv
import gc
import importlib.util
import re
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = ('mmdet', 'mmseg', 'mmpretrain')
CLASSES = 3
SIZES = ((96, 80), (72, 104))  # (height, width) of the images
TRAIN, VAL = 8, 2
# field in a message: of the base, one that it lacks, or none if MMEngine cannot read the config
FIELD = re.compile(r'(?:--base BASE: )?([\w.\[\]]+):|config \S+ ?(?:has no (\w+))?')


class Outcome(NamedTuple):
    """Row of the CSV file; `field` is the field of the base that is named."""

    config: str
    outcome: str
    field: str = ''
    message: str = ''


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--out', required=True, type=Path, metavar='FILE.csv')
    parser.add_argument('--match', default='', help='regular expression of LIBRARY/CONFIG')
    parser.add_argument('--every', type=int, default=1, metavar='N', help='try each Nth config')
    parser.add_argument('--summary', action='store_true', help='count the outcomes in FILE.csv')
    args = parser.parse_args()
    if args.summary:
        print(summary(read_outcomes(args.out)))
        return
    names = [name for name in shipped_configs() if re.search(args.match, name)][:: args.every]
    done = {outcome.config for outcome in read_outcomes(args.out)}
    sweep([name for name in names if name not in done], args.out)


def shipped_configs() -> Iterator[str]:
    """Yield LIBRARY/CONFIG of each config except those in `_base_`."""
    for library in LIBRARIES:
        root = configs_of(library)
        for path in sorted(root.rglob('*.py')):
            name = path.relative_to(root).as_posix()
            if '_base_' not in name:
                yield f'{library}/{name}'


def configs_of(library: str) -> Path:
    spec = importlib.util.find_spec(library)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f'{library} is not installed.')
    return Path(spec.origin).parent / '.mim' / 'configs'


def read_outcomes(file: Path) -> list[Outcome]:
    if not file.exists():
        return []
    with file.open(newline='', encoding='utf-8') as lines:
        return [Outcome(*row) for row in csv.reader(lines)][1:]


def sweep(names: list[str], out: Path) -> None:
    """Try configs, and append the outcome of each to a CSV file."""
    is_new = not out.exists()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, out.open('a', encoding='utf-8') as lines:
        data = TinyData(Path(folder))
        writer = csv.writer(lines, lineterminator='\n')
        if is_new:
            writer.writerow(Outcome._fields)
        for number, name in enumerate(names, 1):
            outcome = try_base(name, data)
            gc.freeze()  # MMEngine collects garbage for each data set
            writer.writerow(outcome)
            lines.flush()
            seconds = time.monotonic() - start
            print(
                f'{number}/{len(names)}  {seconds:.0f} s  {outcome.outcome}  {name}',
                outcome.field,
                file=sys.stderr,
                flush=True,
            )


def try_base(name: str, data: 'TinyData') -> Outcome:
    """Run `mmflatten init` with a config as base, and check the heads of the written config."""
    from mmflatten.console import is_ours
    from mmflatten.custom_data.init import initialise
    from mmflatten.engine.setup import load_config
    from mmflatten.tasks import task_of

    library, _, config = name.partition('/')
    base = str(configs_of(library) / config)
    try:
        request = data.request(task_of(load_config(base)).abbreviation, base)
        for _ in initialise(request):
            pass
        problems = wrong_counts(load_config(str(request.out)))
    except Exception as error:
        text = ' '.join(str(error).replace(base, 'BASE').split())
        found = FIELD.match(text)
        if found and (is_ours(error) or type(error) is ValueError):
            return Outcome(name, 'refused', found[1] or found[2] or 'config', text[:300])
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f'{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})'
        return Outcome(name, 'failed', '', ' '.join(text.split())[:300])
    if problems:
        return Outcome(name, 'failed', problems[0].split(':')[0], problems[0])
    return Outcome(name, 'written')


def wrong_counts(cfg: Any) -> list[str]:
    """Build the model on the meta device, and return a message for each head with another number
    of classes.

    Some models of the libraries compute with values when they are built; their heads are not
    compared.
    """
    import torch

    from mmflatten.config import build_model
    from mmflatten.engine.class_checks import wrong_heads
    from mmflatten.engine.recipe.batches import without_checkpoints

    without_checkpoints(cfg.model)
    try:
        with torch.device('meta'):
            model = build_model(cfg)
    except Exception:
        return []
    return list(wrong_heads(model=model, classes=CLASSES, where='the data', exact=True))


class TinyData:
    """A data set for each task, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pictures: dict = {}
        self._names = [f'{number}.png' for number in range(TRAIN + VAL)]
        self._write_images(folder / 'images')
        self._write_annotations(folder / 'objects.json')
        self._write_label_maps(folder / 'maps')
        self._write_panoptic(folder / 'panoptic.json')
        self._write_class_folders(folder / 'classes')

    def request(self, task: str, base: str) -> object:
        from mmflatten.custom_data.reading import Request

        request = Request(
            task=task,
            images=[self.folder / ('classes' if task == 'cls' else 'images')],
            base=base,
            out=self.folder / 'written.py',
            force=True,
            pictures=self.pictures,
        )
        if task == 'det':
            request.ann = [self.folder / 'objects.json']
        if task == 'panoptic':
            request.ann = [self.folder / 'panoptic.json']
        if task == 'seg':
            request.ann = [self.folder / 'maps']
            request.classes = [f'class {number}' for number in range(CLASSES)]
        return request

    def _write_images(self, folder: Path) -> None:
        import cv2
        import numpy as np

        folder.mkdir()
        for number, name in enumerate(self._names):
            size = SIZES[number % 2]
            pixels = np.random.default_rng(number).integers(0, 256, (*size, 3), np.uint8)
            cv2.imwrite(str(folder / name), pixels)

    def _write_annotations(self, file: Path) -> None:
        import json

        images, annotations = [], []
        for number, name in enumerate(self._names):
            height, width = SIZES[number % 2]
            images.append(dict(id=number, file_name=name, height=height, width=width))
            for label in range(CLASSES):
                x, y = 4 + 20 * label, 8
                annotations.append(
                    dict(
                        id=len(annotations) + 1,
                        image_id=number,
                        category_id=label + 1,
                        bbox=[x, y, 18, 40],
                        area=18 * 40,
                        iscrowd=0,
                        segmentation=[[x, y, x + 18, y, x + 18, y + 40, x, y + 40]],
                    )
                )
        categories = [dict(id=label + 1, name=f'class {label}') for label in range(CLASSES)]
        content = dict(images=images, annotations=annotations, categories=categories)
        file.write_text(json.dumps(content), encoding='utf-8')

    def _write_label_maps(self, folder: Path) -> None:
        import cv2

        folder.mkdir()
        for number, name in enumerate(self._names):
            cv2.imwrite(str(folder / name), label_map(number))

    def _write_panoptic(self, file: Path) -> None:
        """Write the label maps as one segment for each class, of which the first is stuff."""
        import json

        import cv2
        import numpy as np

        folder = file.with_suffix('')
        folder.mkdir()
        images, annotations = [], []
        for number, name in enumerate(self._names):
            labels = label_map(number)
            height, width = labels.shape
            images.append(dict(id=number, file_name=name, height=height, width=width))
            nothing = np.zeros_like(labels)
            cv2.imwrite(str(folder / name), np.dstack([nothing, nothing, labels + 1]))
            segments = []
            for label in range(CLASSES):
                x, y, w, h = cv2.boundingRect((labels == label).astype(np.uint8))
                segments.append(
                    dict(
                        id=label + 1,
                        category_id=label + 1,
                        area=int((labels == label).sum()),
                        bbox=[x, y, w, h],
                        iscrowd=0,
                    )
                )
            annotations.append(dict(image_id=number, file_name=name, segments_info=segments))
        categories = []
        for label in range(CLASSES):
            categories.append(dict(id=label + 1, name=f'class {label}', isthing=int(label > 0)))
        content = dict(images=images, annotations=annotations, categories=categories)
        file.write_text(json.dumps(content), encoding='utf-8')

    def _write_class_folders(self, folder: Path) -> None:
        import cv2
        import numpy as np

        for label in range(CLASSES):
            (folder / f'class {label}').mkdir(parents=True)
            for number in range(5):
                size = SIZES[number % 2]
                seed = 100 + 10 * label + number
                pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
                cv2.imwrite(str(folder / f'class {label}' / f'{number}.png'), pixels)


def label_map(number: int) -> Any:
    """Return the label map (H, W) of an image: two rectangles on a background."""
    import numpy as np

    labels = np.zeros(SIZES[number % 2], np.uint8)
    labels[8:40, 4:40] = 1
    labels[8:40, 40:60] = 2
    return labels


def summary(outcomes: list[Outcome]) -> str:
    """Return a Markdown table of the outcomes in each library, and the reasons with their
    counts.
    """
    kinds = ('written', 'refused', 'failed')
    lines = [f'| library | configs | {" | ".join(kinds)} |', '|---|---:|---:|---:|---:|']
    for library in LIBRARIES:
        counts = Counter(
            outcome.outcome for outcome in outcomes if outcome.config.startswith(f'{library}/')
        )
        cells = [str(counts[kind]) for kind in kinds]
        lines.append(f'| {library} | {counts.total()} | {" | ".join(cells)} |')
    reasons = Counter()
    for outcome in outcomes:
        if outcome.outcome != 'written':
            library = outcome.config.partition('/')[0]
            reasons[library, outcome.outcome, outcome.message[:110]] += 1
    lines.append('')
    for (library, kind, message), count in reasons.most_common():
        lines.append(f'{count:4} {library} {kind}: {message}')
    return '\n'.join(lines)


if __name__ == '__main__':
    main()
