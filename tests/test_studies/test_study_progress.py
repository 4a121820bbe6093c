"""What a run says of itself."""
import subprocess
import sys

import numpy as np


def test_memory_of_a_run_is_not_that_of_the_process_that_started_it():
    held = np.ones(2**27)  # 1 GiB, which `getrusage` of a child would begin with
    code = 'from mmflatten.studies.progress import Meter; print(Meter({}).costs()["peak_memory"])'
    found = int(subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout)
    assert 2**26 < found < held.nbytes
