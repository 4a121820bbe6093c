"""Build hook: the dependencies and extras of the package are the requirement files of this folder."""
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDER = Path(__file__).resolve().parent
# Dependencies of every user, a part of other files, and the files of `make setup`.
NO_EXTRAS = ('runtime', 'mmcv', 'setup', 'constraints', 'overrides')
ALL = ('stereo', 'cls', 'det', 'seg', 'demo', 'analyze', 'export', 'report', 'app', 'study', 'hub')


def read_requirements(name: str) -> list[str]:
    """Return the requirements of `<name>.txt` and of the files that it includes with `-r`."""
    found = []
    for line in (FOLDER / f'{name}.txt').read_text(encoding='utf-8').splitlines():
        if line.startswith('-r '):
            found += read_requirements(line.removeprefix('-r ').removesuffix('.txt'))
        elif line and not line.startswith('#'):
            found.append(line)
    return found


class RequirementFiles(MetadataHookInterface):
    """Reads `dependencies` and `optional-dependencies`: one extra for each file, and `all`."""

    def update(self, metadata: dict) -> None:
        names = sorted(path.stem for path in FOLDER.glob('*.txt') if path.stem not in NO_EXTRAS)
        extras = {name: read_requirements(name) for name in names}
        extras['all'] = sorted({line for name in ALL for line in extras[name]})
        metadata.update({'dependencies': read_requirements('runtime'), 'optional-dependencies': extras})
