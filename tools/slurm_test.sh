#!/usr/bin/env bash
# Test under Slurm, one task per GPU. launch.sh lists the variables that set the allocation:
#     bash tools/slurm_test.sh PARTITION JOB_NAME CONFIG CHECKPOINT [options of tools/test.py]
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

if [ $# -lt 4 ]; then
    echo "usage: bash tools/slurm_test.sh PARTITION JOB_NAME CONFIG CHECKPOINT [options of tools/test.py]" >&2
    exit 2
fi
launch_slurm test.py "$1" "$2" "$3" "$4" "${@:5}"
