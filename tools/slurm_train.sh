#!/usr/bin/env bash
# Train under Slurm, one task per GPU:
#     bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [options of tools/train.py]
# GPUS (8), GPUS_PER_NODE (8), CPUS_PER_TASK (5) and SRUN_ARGS set the allocation, MASTER_PORT (29500) the port.
# A job that Slurm may restart goes on by itself with the option --resume.
set -eu

if [ $# -lt 4 ]; then
    echo "usage: bash tools/slurm_train.sh PARTITION JOB_NAME CONFIG WORK_DIR [options of tools/train.py]" >&2
    exit 2
fi
# What a training that was interrupted tells the user to type.
MMFLATTEN_COMMAND=$(printf '%q ' bash "$0" "$@")
export MMFLATTEN_COMMAND
partition=$1
job_name=$2
config=$3
work_dir=$4
gpus=${GPUS:-8}
gpus_per_node=${GPUS_PER_NODE:-8}
if [ "$gpus" -lt "$gpus_per_node" ]; then
    gpus_per_node=$gpus
fi
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck disable=SC2086
PYTHONPATH="$here/..:${PYTHONPATH:-}" srun \
    --partition="$partition" \
    --job-name="$job_name" \
    --gres="gpu:$gpus_per_node" \
    --ntasks="$gpus" \
    --ntasks-per-node="$gpus_per_node" \
    --cpus-per-task="${CPUS_PER_TASK:-5}" \
    --kill-on-bad-exit=1 \
    ${SRUN_ARGS:-} \
    python -u "$here/train.py" "$config" --work-dir "$work_dir" --launcher slurm "${@:5}"
