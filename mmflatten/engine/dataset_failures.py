"""Messages for a data set that its library cannot read: which one, from where, and why."""
import traceback
from typing import Any

_NO_SAMPLES = 'need at least one array to concatenate'  # NumPy's words where MMEngine packs an empty list of samples


def describe_dataset_error(error: BaseException) -> str | None:
    """Name the data set that was being built when a library failed; None where none was."""
    dataset = _dataset_being_built(error)
    if dataset is None:
        return None
    name = f'{type(dataset).__name__} ({_places(dataset)})'
    if str(error) == _NO_SAMPLES:
        return f'{name} has no samples; check data_root, data_prefix and ann_file, and what filter_cfg leaves out'
    last = traceback.extract_tb(error.__traceback__)[-1]
    reason = f'{type(error).__name__}: {error}' if str(error) else f'{type(error).__name__}: {last.line}'
    return f'{name} cannot be read: {reason}; check that folder and file hold what the config expects'


def _dataset_being_built(error: BaseException) -> Any:
    """The data set whose constructor was running, which reads the list of samples."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get('self')
        if frame.f_code.co_name in ('__init__', 'full_init') and hasattr(owner, 'load_data_list'):
            return owner
    return None


def _places(dataset: Any) -> str:
    prefix = getattr(dataset, 'data_prefix', None) or {}
    places = [getattr(dataset, 'ann_file', ''), *(prefix.values() if isinstance(prefix, dict) else [prefix])]
    named = [str(place) for place in places if place] or [getattr(dataset, 'data_root', '')]
    return ', '.join(str(place) for place in named)
