"""Package description; the requirement files in `requirements/` hold every version range."""
import runpy
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


def read_requirements(name: str) -> list[str]:
    """Requirement lines of `requirements/<name>.txt` without comments."""
    lines = (ROOT / 'requirements' / f'{name}.txt').read_text(encoding='utf-8').splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith('#')]


def read_readme() -> str:
    """README.md, or nothing where only part of the tree was copied (a container layer, say)."""
    readme = ROOT / 'README.md'
    return readme.read_text(encoding='utf-8') if readme.exists() else ''


class BuildWithConfigs(build_py):
    """Puts configs, studies, tools and the model index into `mmflatten/.mim` of a wheel, as OpenMMLab's packages do."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, 'mmflatten', '.mim')
        shutil.rmtree(target, ignore_errors=True)
        for folder in ('configs', 'studies', 'tools'):
            shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns('__pycache__', 'maintain'))
        shutil.copy(ROOT / 'model-index.yml', target)


extras = {name: read_requirements(name)
          for name in ('cls', 'det', 'seg', 'demo', 'analyze', 'export', 'report', 'app', 'study', 'docs',
                       'browser', 'hub', 'timm', 'track', 'tests')}
extras['all'] = sorted({line for name in ('cls', 'det', 'seg', 'demo', 'analyze', 'export', 'report', 'app', 'study')
                        for line in extras[name]})

setup(
    name='mmflatten',
    version=runpy.run_path(str(ROOT / 'mmflatten' / 'version.py'))['__version__'],
    description='Exchange the attention operator of a vision backbone, keep the OpenMMLab tools around it',
    long_description=read_readme(),
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    python_requires='>=3.11',
    packages=find_packages(include=['mmflatten', 'mmflatten.*']),
    package_data={'mmflatten': ['py.typed', '**/*.csv', 'report/templates/*', 'hub/models/*/*']},
    cmdclass={'build_py': BuildWithConfigs},
    entry_points={'console_scripts': ['mmflatten = mmflatten.cli.main:main']},
    install_requires=read_requirements('runtime'),
    extras_require=extras,
    zip_safe=False,
)
