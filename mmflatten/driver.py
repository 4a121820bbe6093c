"""Detect GPUs that the installed PyTorch cannot use."""
import os
import re
import shutil
import subprocess


def gpu_problem() -> str:
    """Return one line on a GPU that PyTorch cannot use, with the fix; '' if there is none."""
    if os.environ.get('CUDA_VISIBLE_DEVICES') in ('', '-1') or shutil.which('nvidia-smi') is None:
        return ''
    import torch
    version = f'PyTorch {torch.__version__}'
    if torch.cuda.is_available():
        return _too_old(version)
    gpu = _listed_gpu()
    if not gpu:
        return ''
    if torch.version.cuda is None:
        return f'{gpu}: {version} is built without CUDA. Install a build for CUDA (docs/install.md).'
    try:
        torch.cuda.init()
        reason = 'it finds no GPU'
    except (RuntimeError, AssertionError) as error:
        reason = re.split(r'\. |\n', str(error))[0]
    return (f'{gpu}: {version}, built for CUDA {torch.version.cuda}, cannot use it ({reason}). If the driver is too '
            'old, update it or install a PyTorch built for an older CUDA (docs/install.md).')


def _too_old(version: str) -> str:
    """Return a line on a GPU whose compute capability is below what PyTorch was built for; '' for a newer one."""
    import torch
    built = [int(number) for name in torch.cuda.get_arch_list() for number in re.findall(r'^sm_(\d+)', name)]
    major, minor = torch.cuda.get_device_capability()
    if not built or 10 * major + minor >= min(built):
        return ''
    return (f'{torch.cuda.get_device_name()}: {version} is built for compute capability {min(built) / 10} and newer, '
            f'got {major}.{minor}. Install a PyTorch built for an older CUDA (docs/install.md).')


def _listed_gpu() -> str:
    """Return name and driver of the first GPU that nvidia-smi lists, '' if it lists none."""
    command = ['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader']
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (subprocess.TimeoutExpired, OSError):
        return ''
    first, *_ = [*child.stdout.strip().splitlines(), '']
    name, _, driver = first.partition(',')
    return f'{name.strip()} (driver {driver.strip()})' if child.returncode == 0 and driver else ''
