"""What every test has: MMEngine's global state is that of a new process."""
import pytest
from mmengine.logging import MessageHub, MMLogger
from mmengine.registry import DefaultScope
from mmengine.visualization import Visualizer


@pytest.fixture(autouse=True)
def fresh_global_state():
    """No default scope, logger, message hub or visualizer of another test, and none left behind."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    for logger in MMLogger._instance_dict.values():
        for handler in list(logger.handlers):
            handler.close()
    for kind in (DefaultScope, MMLogger, MessageHub, Visualizer):
        kind._instance_dict.clear()
