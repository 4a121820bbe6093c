#!/usr/bin/env bash
# Test on several GPUs, or on several CPU processes without a GPU:
#     bash tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [options of tools/test.py]
# For several machines, see launch.sh.
. "$(dirname "${BASH_SOURCE[0]}")/launch.sh"

if [ $# -lt 3 ]; then
    echo "usage: bash tools/dist_test.sh CONFIG CHECKPOINT PROCESSES [options of tools/test.py]" >&2
    exit 2
fi
config=$1
checkpoint=$2
processes=$3
launch test.py "$processes" "$config" "$checkpoint" "${@:4}"
