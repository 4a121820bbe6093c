"""Count operators as launches of a GPU."""

from torch.utils._python_dispatch import TorchDispatchMode

# Kernels and sums of the launchers for the focused map, if the tokens of an image are more than one
# chunk.
FUSED = {'mmflatten::linear_attention': 5, 'mmflatten::linear_attention_backward': 9}
NOTHING = ('empty', '_unsafe_view', 'detach', 'sym_')  # launch no kernel


class Launches(TorchDispatchMode):
    """Count operators that compute something: neither views nor allocations."""

    def __init__(self):
        super().__init__()
        self.names = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, returns = function._schema.name, function._schema.returns
        is_view = (
            returns and returns[0].alias_info is not None and not returns[0].alias_info.is_write
        )
        if not is_view and not any(part in name for part in NOTHING):
            self.names[name] = self.names.get(name, 0) + FUSED.get(name, 1)
        return function(*args, **(kwargs or {}))
