#!/usr/bin/env bash
# Train on several GPUs, or on several CPU processes without a GPU:
#     bash tools/dist_train.sh CONFIG PROCESSES [options of tools/train.py]
# For several machines, see launch.sh. With MAX_RESTARTS=N, training restarts from its newest checkpoint after a process
# has died. This adds --resume, so a work dir that already has checkpoints is resumed, too.
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

if [ $# -lt 2 ]; then
    echo "usage: bash tools/dist_train.sh CONFIG PROCESSES [options of tools/train.py]" >&2
    exit 2
fi
# Repeated with --resume in the message of an interrupted training.
MMFLATTEN_COMMAND=$(printf '%q ' bash "$0" "$@")
export MMFLATTEN_COMMAND
config=$1
processes=$2
if [ "${MAX_RESTARTS:-0}" != 0 ]; then
    if [[ " $* " =~ \ --resume[=\ ]+[^-\ ] ]]; then
        echo "--resume: expected no checkpoint with MAX_RESTARTS ($MAX_RESTARTS), because every restart would go back to it." \
            "Use --resume without a path, and move newer checkpoints out of the work dir." >&2
        exit 2
    fi
    set -- "$@" --resume
fi
launch train.py "$processes" "$config" "${@:3}"
