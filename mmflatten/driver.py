"""GPUs that the installed PyTorch cannot use."""
import os
import shutil
import subprocess


def gpu_problem() -> str:
    """Return one line on a GPU that PyTorch cannot use, with the fix; '' if there is none."""
    gpus = _listed_gpus()
    if not gpus:
        return ''
    import torch
    if torch.cuda.is_available():
        return ''
    if torch.version.cuda is None:
        return (f'{gpus}: PyTorch {torch.__version__} is built for the CPU only. Install a build for CUDA '
                '(docs/install.md).')
    return (f'{gpus}: PyTorch {torch.__version__}, built for CUDA {torch.version.cuda}, cannot use it. Update the '
            'driver, or install a PyTorch built for an older CUDA (docs/install.md).')


def _listed_gpus() -> str:
    """Name and driver of the first GPU that nvidia-smi lists, '' for none or if `CUDA_VISIBLE_DEVICES` hides all."""
    tool = shutil.which('nvidia-smi')
    if tool is None or os.environ.get('CUDA_VISIBLE_DEVICES') in ('', '-1'):
        return ''
    command = [tool, '--query-gpu=name,driver_version', '--format=csv,noheader']
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (subprocess.TimeoutExpired, OSError):
        return ''
    first, *_ = [*child.stdout.strip().splitlines(), '']
    name, _, driver = first.partition(',')
    return f'{name.strip()} (driver {driver.strip()})' if child.returncode == 0 and driver else ''
