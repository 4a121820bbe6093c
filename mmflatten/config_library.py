"""The configs that travel with the package: found by name, or by the path that they have in a checkout."""
import functools
from pathlib import Path

import yaml

INDEX = 'model-index.yml'


def library_root() -> Path:
    """Folder that holds `configs/` and the model index: `.mim` in an installed package, else the checkout."""
    package = Path(__file__).resolve().parent
    installed = package / '.mim'
    return installed if installed.is_dir() else package.parent


@functools.cache
def library() -> dict[str, dict]:
    """Every config's entry of the metafiles, by its name: `Config`, `Metadata`, `Results`."""
    root, entries = library_root(), {}
    index = root / INDEX
    if index.is_file():
        for file in yaml.safe_load(index.read_text(encoding='utf-8'))['Import']:
            for model in yaml.safe_load((root / file).read_text(encoding='utf-8'))['Models']:
                entries[model['Name']] = model
    return entries


def find_config(name: str) -> Path | None:
    """The file of a config that is named by its path here, by its path in a checkout, or by its name alone."""
    entry = library().get(Path(name).stem if name.endswith('.py') else name, {})
    places = (Path(name), library_root() / name, library_root() / entry.get('Config', '-'))
    return next((place for place in places[:3 if '/' not in name else 2] if place.is_file()), None)
