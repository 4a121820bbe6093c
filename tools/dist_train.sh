#!/usr/bin/env bash
# Train on several GPUs, or on several CPU processes where there is none:
#     bash tools/dist_train.sh CONFIG PROCESSES [options of tools/train.py]
# Several machines: see launch.sh. With MAX_RESTARTS=N, a training of which a process died goes on from its newest
# checkpoint by itself; so does one in a work dir that holds checkpoints already, because --resume is added.
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

if [ $# -lt 2 ]; then
    echo "usage: bash tools/dist_train.sh CONFIG PROCESSES [options of tools/train.py]" >&2
    exit 2
fi
# What a training that was interrupted tells the user to type.
MMFLATTEN_COMMAND=$(printf '%q ' bash "$0" "$@")
export MMFLATTEN_COMMAND
config=$1
processes=$2
if [ "${MAX_RESTARTS:-0}" != 0 ]; then
    if [[ " $* " =~ \ --resume[=\ ]+[^-\ ] ]]; then
        echo "--resume takes no checkpoint with MAX_RESTARTS ($MAX_RESTARTS): every restart would go back to it." \
            "Give --resume alone, and move newer checkpoints out of the work dir" >&2
        exit 2
    fi
    set -- "$@" --resume
fi
launch train.py "$processes" "$config" "${@:3}"
