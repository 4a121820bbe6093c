#!/usr/bin/env bash
# Train under Slurm, one task per GPU; launch.sh says what sets the allocation:
#     bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [options of tools/train.py]
# A job that Slurm restarts when a machine is lost goes on by itself with the option --resume:
#     sbatch --requeue --wrap 'bash tools/slurm_train.sh ... --resume'
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

if [ $# -lt 4 ]; then
    echo "usage: bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [options of tools/train.py]" >&2
    exit 2
fi
# What a training that was interrupted tells the user to type.
MMFLATTEN_COMMAND=$(printf '%q ' bash "$0" "$@")
export MMFLATTEN_COMMAND
launch_slurm train.py "$1" "$2" "$3" --work-dir "$4" "${@:5}"
