"""Package description; the requirement files in `requirements/` hold every version range."""
import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent


def read_requirements(name: str) -> list[str]:
    """Requirement lines of `requirements/<name>.txt` without comments."""
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text(encoding='utf-8').splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith('#')]


def read_version() -> str:
    """The version, read without importing the package, because that asks for torch."""
    return re.search(r"__version__ = '(.+)'", (ROOT / 'mmflatten' / 'version.py').read_text(encoding='utf-8')).group(1)


def read_readme() -> str:
    """README.md, or nothing where only part of the tree was copied (a container layer, say)."""
    readme = ROOT / 'README.md'
    return readme.read_text(encoding='utf-8') if readme.exists() else ''


extras = {name: read_requirements(name) for name in ('cls', 'det', 'seg', 'demo', 'tests')}
extras['build'] = read_requirements('build')
extras['all'] = sorted({line for name in ('cls', 'det', 'seg', 'demo') for line in extras[name]})

setup(
    name='mmflatten',
    version=read_version(),
    description='Exchange the attention operator of a vision backbone, keep the OpenMMLab tools around it',
    long_description=read_readme(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    python_requires='>=3.10',
    packages=find_packages(include=['mmflatten', 'mmflatten.*']),
    package_data={'mmflatten': ['**/*.csv']},
    install_requires=read_requirements('runtime'),
    extras_require=extras,
    zip_safe=False,
)
