#!/usr/bin/env bash
# Train under Slurm, one task per GPU. launch.sh lists the variables that set the allocation:
#     bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [options of tools/train.py]
# With --resume, a job that Slurm restarts after losing a machine continues from its newest checkpoint:
#     sbatch --requeue --wrap 'bash tools/slurm_train.sh ... --resume'
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

if [ $# -lt 4 ]; then
    echo "usage: bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [options of tools/train.py]" >&2
    exit 2
fi
# Repeated with --resume in the message of an interrupted training.
MMFLATTEN_COMMAND=$(printf '%q ' bash "$0" "$@")
export MMFLATTEN_COMMAND
# One loader process for each CPU of a task but one. A later --cfg-options replaces it.
workers=$(( ${CPUS_PER_TASK:-5} > 1 ? ${CPUS_PER_TASK:-5} - 1 : 1 ))
launch_slurm train.py "$1" "$2" "$3" --work-dir "$4" --cfg-options train_dataloader.num_workers=$workers "${@:5}"
