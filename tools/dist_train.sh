#!/usr/bin/env bash
# Train on several GPUs, or on several CPU processes where there is none:
#     bash tools/dist_train.sh CONFIG PROCESSES [options of tools/train.py]
# Several machines: see launch.sh.
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
launch train.py "$processes" "$config" "${@:3}"
