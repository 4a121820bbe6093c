# Sourced by dist_train.sh and dist_test.sh: `launch TOOL PROCESSES [arguments]` starts tools/TOOL on PROCESSES processes.
#
# One machine needs nothing else. For many, run the same command on each with NNODES (how many), NODE_RANK (0, 1, ...),
# MASTER_ADDR (address of machine 0) and PORT (a free one there, the same everywhere). PYTHON names another Python.

launch() {
    local tool=$1 processes=$2
    shift 2
    local here rendezvous error_file status python=${PYTHON:-python}
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    if ! [[ $processes =~ ^(auto|gpu|cpu|[1-9][0-9]*)$ ]]; then
        echo "PROCESSES ($processes) must be a whole number above 0, or auto" >&2
        return 2
    fi
    if ! "$python" -c 'import sys; from importlib.util import find_spec; sys.exit(not find_spec("torch"))'; then
        echo "$python has no torch; activate the environment (source .venv/bin/activate) or set PYTHON" >&2
        return 1
    fi
    if [ "${NNODES:-1}" -gt 1 ]; then
        : "${NODE_RANK:?NODE_RANK must say which of the $NNODES machines this is, from 0}"
        : "${MASTER_ADDR:?MASTER_ADDR must be the address of the machine with NODE_RANK=0}"
        rendezvous="--nnodes=$NNODES --node_rank=$NODE_RANK --master_addr=$MASTER_ADDR --master_port=${PORT:-29500}"
    elif [ -n "${PORT:-}" ]; then
        rendezvous="--master_addr=127.0.0.1 --master_port=$PORT"
    else
        rendezvous="--standalone"  # takes a free port
    fi

    error_file=$(mktemp)
    # shellcheck disable=SC2086
    MMFLATTEN_ERROR_FILE=$error_file PYTHONPATH="$here/..:${PYTHONPATH:-}" \
        "$python" -m torch.distributed.run $rendezvous --nproc_per_node="$processes" \
        "$here/$tool" "$@" --launcher pytorch
    status=$?
    # torchrun prints a report of its own after the worker's message; the message comes last again.
    [ "$status" -ne 0 ] && cat "$error_file" >&2
    rm -f "$error_file"
    return "$status"
}
