"""Files and addresses in the examples of `docker/`, which are not built or run."""
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / 'docker'


@pytest.mark.parametrize('name', ['cpu.Dockerfile', 'cuda.Dockerfile'])
def test_dockerfile_copies_existing_files(name):
    text = (DOCKER / name).read_text()
    copied = [source for line in re.findall(r'^COPY (.+) \S+$', text, re.MULTILINE) for source in line.split()]
    assert [source for source in copied if not (ROOT / source).exists()] == []
    # Files that the installation of the package reads.
    assert {'pyproject.toml', 'requirements', 'mmflatten', 'mmcv-torch-ops'} <= set(copied)
    script, = re.findall(r'^RUN python (\S+)$', text, re.MULTILINE)
    assert (ROOT / script).is_file() and script.split('/')[0] in copied


def dockerfile(name):
    """The instructions of a Dockerfile, as pairs of keyword and arguments, with continued lines joined."""
    lines = (DOCKER / name).read_text().replace('\\\n', ' ').splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line and not line.startswith('#')]


@pytest.mark.parametrize('name', ['cpu.Dockerfile', 'cuda.Dockerfile'])
def test_container_does_not_run_as_root_and_can_write_where_it_must(name):
    instructions = dockerfile(name)
    keywords = [keyword for keyword, _ in instructions]
    user = instructions[keywords.index('USER')][1]
    assert keywords.count('USER') == 1 and int(user) > 0  # a number, which Kubernetes can compare with root
    assert set(keywords[keywords.index('USER') + 1:]) == {'CMD'}  # all that is installed belongs to root
    commands = ' && '.join(arguments for keyword, arguments in instructions if keyword == 'RUN')
    environment = ' '.join(arguments for keyword, arguments in instructions if keyword == 'ENV')
    home = re.search(r'HOME=(\S+)', environment).group(1)
    account = re.search(r'useradd --uid (\d+) --home-dir (\S+) \w+', commands)
    assert account.groups() == (user, home)
    writable = set(re.search(r'chmod 1777 ([^&]+)', commands).group(1).split())
    workdir = instructions[keywords.index('WORKDIR')][1]
    mounted = set(re.findall(rf':{workdir}/(\w+)"', (DOCKER / name).read_text()))
    assert mounted == {'data', 'work_dirs'} and mounted | {'.', home.removeprefix(f'{workdir}/')} == writable


def test_kubernetes_job_runs_as_the_user_of_the_image():
    _, job = yaml.safe_load_all((DOCKER / 'kubernetes-job.yaml').read_text())
    context = job['spec']['template']['spec']['securityContext']
    user, = (int(arguments) for keyword, arguments in dockerfile('cuda.Dockerfile') if keyword == 'USER')
    assert context == {'runAsNonRoot': True, 'runAsUser': user, 'fsGroup': user}


def test_kubernetes_job_uses_the_address_of_its_service():
    service, job = yaml.safe_load_all((DOCKER / 'kubernetes-job.yaml').read_text())
    name, spec = job['metadata']['name'], job['spec']
    pod = spec['template']['spec']
    container, = pod['containers']
    environment = {item['name']: item['value'] for item in container['env']}
    assert service['spec']['selector'] == {'job-name': name}
    assert environment['MASTER_ADDR'] == f'{name}-0.{service["metadata"]["name"]}'
    assert pod['subdomain'] == service['metadata']['name']
    assert int(environment['NNODES']) == spec['completions'] == spec['parallelism']
    script, config, processes = re.search(r'bash (\S+) (\S+) (\d+)', container['args'][0]).groups()
    assert (ROOT / script).is_file() and (ROOT / config).is_file()
    limits = container['resources']['limits']
    assert int(processes) == limits['nvidia.com/gpu'] and limits['cpu'] >= 2 * int(processes)
    assert 'num_workers=auto' in container['args'][0]
    volumes = {volume['name'] for volume in pod['volumes']}
    assert {mount['name'] for mount in container['volumeMounts']} == volumes
