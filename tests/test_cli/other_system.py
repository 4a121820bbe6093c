"""Take from Python what only Linux, or only Linux and macOS, have, and run code:

    python other_system.py CODE [ARGUMENT ...]

Other libraries are imported before, because they look for these parts themselves.
"""

import os
import signal
import sys

import filelock  # noqa: F401
import mmengine.runner  # noqa: F401
import torch  # noqa: F401

PARTS = {
    os: ('O_DIRECTORY', 'sched_getaffinity', 'sched_setaffinity', 'geteuid'),
    signal: ('SIGHUP', 'SIGKILL', 'SIGALRM'),
}

if __name__ == '__main__':
    for module, names in PARTS.items():
        for name in names:
            delattr(module, name)
    sys.modules['fcntl'] = sys.modules['triton'] = None
    kept = os.O_NONBLOCK  # filelock uses it later
    del os.O_NONBLOCK
    import mmflatten.untrusted.files  # noqa: F401

    os.O_NONBLOCK = kept
    del sys.argv[0]
    exec(sys.argv[0])
