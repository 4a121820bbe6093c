"""Messages for a config that names an unknown type or gives a type an argument it does not take."""
import difflib
import inspect
import re
import traceback
from typing import Any

_BUILDERS = {'build_from_cfg', 'build_scheduler_from_cfg'}


def describe_type_error(error: BaseException) -> str | None:
    """Explain an unknown or missing argument of something a config builds; None for any other TypeError."""
    built = _innermost_build(error)
    if built is None:
        return None
    cls, given = built
    name = f'{cls.__name__} ({cls.__module__})'
    accepted = accepted_arguments(cls)
    unknown = re.search(r"got an unexpected keyword argument '(\w+)'", str(error))
    if unknown and unknown[1] in given and unknown[1] not in accepted:
        close = difflib.get_close_matches(unknown[1], accepted, n=1)
        guess = f'; did you mean {close[0]!r}?' if close else ''
        return f'unknown argument {unknown[1]!r} for {name}{guess}; it accepts: {", ".join(accepted)}'
    missing = re.search(r'missing \d+ required (?:positional|keyword-only) arguments?: (.+)', str(error))
    if missing:
        return f'{name} also needs {missing[1]}; it was given: {", ".join(given) or "nothing"}'
    return None


def describe_key_error(error: BaseException) -> str | None:
    """Explain a `type` that no registry knows; None for any other KeyError."""
    text = str(error.args[0]) if error.args else ''
    unknown = re.match(r'(\S+) is not in the (\S+?)::(.+?) registry', text)
    if unknown is None:
        return None
    close = difflib.get_close_matches(unknown[1], _registered_names(error), n=3)
    guess = f'; did you mean {" or ".join(map(repr, close))}?' if close else ''
    return f'unknown type {unknown[1]!r}: nothing of this name in the {unknown[3]} registry of {unknown[2]}{guess}'


def accepted_arguments(cls: Any) -> list[str]:
    """Names a constructor takes, its parents' included where it passes `**kwargs` on to them."""
    names: list[str] = []
    owners = inspect.getmro(cls) if inspect.isclass(cls) else (cls, )
    for owner in owners:
        function = owner.__dict__.get('__init__') if inspect.isclass(owner) else owner
        if function is None:
            continue
        parameters = list(inspect.signature(function).parameters.values())
        names += [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break
    return [name for name in dict.fromkeys(names) if name != 'self']


def _innermost_build(error: BaseException) -> tuple[Any, dict] | None:
    """The class being built when `error` was raised, and the arguments the config gave it."""
    for frame, _ in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_code.co_name in _BUILDERS:
            cls = frame.f_locals.get('obj_cls') or frame.f_locals.get('scheduler_cls')
            return None if cls is None else (cls, dict(frame.f_locals.get('args') or {}))
    return None


def _registered_names(error: BaseException) -> list[str]:
    names: list[str] = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        registry = frame.f_locals.get('registry')
        while registry is not None and hasattr(registry, 'module_dict'):
            names += registry.module_dict
            names += [f'{scope}.{name}' for scope, child in registry.children.items() for name in child.module_dict]
            registry = registry.parent
    return list(dict.fromkeys(names))
