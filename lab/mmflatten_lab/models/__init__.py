"""Parts of the models of studies; importing this module registers them."""
from mmflatten_lab.models.factors import WithLocalTermAndGate, gates_of

__all__ = ['WithLocalTermAndGate', 'gates_of']
