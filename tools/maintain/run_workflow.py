"""Run the commands of a GitHub workflow on this machine, in a clone of the committed files:

    python tools/maintain/run_workflow.py test.yml              # lists the jobs
    python tools/maintain/run_workflow.py test.yml docs bounds/test-lowest
    python tools/maintain/run_workflow.py test.yml docs --without UV_TORCH_BACKEND

The last line is for a machine that cannot reach download.pytorch.org, from which this variable lets
uv take PyTorch.

A job with a matrix runs each of its combinations, or those whose values follow its name. Jobs of
other workflows that a job calls are listed as `JOB:ITS_JOB`.

The `run:` steps are executed with bash, in order. Of the actions, setup-python selects the Python,
which uv finds on this machine; uploads and downloads of artifacts copy folders; checkout is the
clone. All others, such as the publication, are skipped and listed.
"""

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path('.github', 'workflows')
EXPRESSION = re.compile(r'\$\{\{\s*(.*?)\s*\}\}')


@dataclass(frozen=True)
class Job:
    """One combination of a job's matrix."""

    name: str
    steps: list[dict]
    values: dict[str, str]
    variables: dict[str, str]


class StepError(Exception):
    """A step failed, or it needs something that this script does not provide."""


def read_jobs(workflow: Path) -> Iterator[Job]:
    """Read the jobs of a workflow, and those of the workflows that it calls."""
    content = yaml.safe_load(workflow.read_text(encoding='utf-8'))
    for name, job in content['jobs'].items():
        if 'uses' in job:
            called = workflow.parent / Path(job['uses']).name
            for inner in read_jobs(called):
                yield Job(f'{name}:{inner.name}', inner.steps, inner.values, inner.variables)
            continue
        variables = {**content.get('env', {}), **job.get('env', {})}
        for values in _combinations(job.get('strategy', {}).get('matrix', {})):
            yield Job('/'.join([name, *values.values()]), job['steps'], values, variables)


def _combinations(matrix: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, str]]:
    for values in itertools.product(*matrix.values()):
        yield dict(zip(matrix, map(str, values)))


class Machine:
    """A clone of the repository, with the artifacts of the jobs that ran before.

    Args:
        source: the repository; files that are not committed are left out.
        folder: an empty folder for clones and artifacts.
        without: variables of the workflow that its commands do not get.
    """

    def __init__(self, source: Path, folder: Path, without: Collection[str] = ()) -> None:
        self.source = source
        self.folder = folder
        self.without = without
        self.artifacts = folder / 'artifacts'

    def run(self, job: Job) -> list[str]:
        """Run the steps of a job, and return the actions that were skipped.

        Raises:
            StepError: a command failed.
        """
        clone = Path(tempfile.mkdtemp(prefix='job-', dir=self.folder))
        subprocess.run(['git', 'clone', '-q', self.source, clone], check=True)
        variables = {**os.environ, **job.variables, 'GITHUB_WORKSPACE': str(clone)}
        for name in ('VIRTUAL_ENV', *self.without):
            variables.pop(name, None)
        skipped = []
        for step in job.steps:
            options = {key: _fill(value, job) for key, value in step.get('with', {}).items()}
            action = step.get('uses', '').partition('@')[0]
            if 'run' in step:
                own = {key: _fill(value, job) for key, value in step.get('env', {}).items()}
                _run_command(_fill(step['run'], job), clone, {**variables, **own})
            elif action == 'actions/setup-python':
                variables['PATH'] = self._python(options['python-version'], variables['PATH'])
            elif action == 'actions/upload-artifact':
                target = self.artifacts / options['name']
                shutil.copytree(clone / options['path'], target, dirs_exist_ok=True)
            elif action == 'actions/download-artifact':
                shutil.copytree(self.artifacts / options['name'], clone / options['path'])
            elif action != 'actions/checkout':
                skipped.append(action)
        shutil.rmtree(clone)
        return skipped

    def _python(self, version: str, path: str) -> str:
        """Return a search path with `python` and `pip` of a version, in an environment of its
        own.
        """
        environment = self.folder / f'python-{version}'
        if not environment.exists():
            make = [
                sys.executable,
                '-m',
                'uv',
                'venv',
                '-q',
                '--seed',
                '--no-python-downloads',
                '--python',
                version,
            ]
            if subprocess.run([*make, environment]).returncode:
                raise StepError(f'Python {version}: not found on this machine. Install it.')
        return f'{environment / "bin"}{os.pathsep}{path}'


def _fill(value: Any, job: Job) -> str:
    def replacement(match: re.Match) -> str:
        scope, _, name = match[1].partition('.')
        if scope != 'matrix' or name not in job.values:
            raise StepError(f'{match[0]}: expected a value of the matrix. Run it by hand.')
        return job.values[name]

    return EXPRESSION.sub(replacement, str(value))


def _run_command(command: str, folder: Path, variables: Mapping[str, str]) -> None:
    print(f'$ {command}', flush=True)
    done = subprocess.run(['bash', '-eo', 'pipefail', '-c', command], cwd=folder, env=variables)
    if done.returncode:
        raise StepError(f'status {done.returncode}: {command}')


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('workflow', help='name of a file in .github/workflows')
    parser.add_argument('jobs', nargs='*', help='jobs to run; default: list them')
    parser.add_argument('--source', type=Path, default=ROOT, help='repository (default: this one)')
    parser.add_argument(
        '--without',
        nargs='+',
        default=[],
        metavar='NAME',
        help='variables of the workflow to leave out (default: none)',
    )
    args = parser.parse_args(argv)
    jobs = list(read_jobs(args.source / FOLDER / args.workflow))
    if not args.jobs:
        print(*(job.name for job in jobs), sep='\n')
        return 0
    chosen = []
    for name in args.jobs:
        found = [job for job in jobs if f'{job.name}/'.startswith(f'{name}/')]
        if not found:
            parser.error(f'{name}: expected a job of {args.workflow}. Without jobs, it lists them.')
        chosen += found
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(args.source.resolve(), Path(folder), args.without)
        for job in chosen:
            print(f'== {job.name}', flush=True)
            try:
                skipped = machine.run(job)
                print(f'== {job.name}: ok', *[f'(skipped {action})' for action in skipped])
            except StepError as error:
                print(f'== {job.name}: failed, {error}', flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
