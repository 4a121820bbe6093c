# Sourced by the scripts in this folder. `launch TOOL PROCESSES [arguments]` starts tools/TOOL on this machine, and
# `launch_slurm TOOL PARTITION JOB_NAME [arguments]` under Slurm.
#
# For several machines, run the same command on each with NNODES (number of machines), MASTER_ADDR (address of one of
# them, where they meet) and PORT (a free port there, default 29500). Set NODE_RANK=0 there and another number elsewhere
# only if that machine does not recognize itself by this address. JOB_ID distinguishes jobs that meet at one address.
# MAX_RESTARTS=N restarts all processes, at most N times, after one of them has died. PYTHON names another Python.

launch() {
    local tool=$1 processes=$2
    shift 2
    local here rendezvous errors status python=${PYTHON:-python}
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    if ! [[ $processes =~ ^(auto|gpu|cpu|[1-9][0-9]*)$ ]]; then
        echo "PROCESSES: expected a positive integer or auto, got $processes." >&2
        return 2
    fi
    if ! "$python" -c 'import sys; from importlib.util import find_spec; sys.exit(not find_spec("torch"))'; then
        echo "$python has no torch. Activate the environment (source .venv/bin/activate) or set PYTHON." >&2
        return 1
    fi
    rendezvous="--rdzv-backend=c10d --rdzv-id=${JOB_ID:-mmflatten}"
    if [ "${NNODES:-1}" != 1 ]; then
        : "${MASTER_ADDR:?MASTER_ADDR is required: the address of the machine where the $NNODES machines meet.}"
        rendezvous="$rendezvous --nnodes=$NNODES --rdzv-endpoint=$MASTER_ADDR:${PORT:-29500}"
        case "${NODE_RANK:-}" in
            '') ;;
            0) rendezvous="$rendezvous --rdzv-conf=is_host=true" ;;
            *) rendezvous="$rendezvous --rdzv-conf=is_host=false" ;;
        esac
    elif [ -n "${PORT:-}" ]; then
        rendezvous="$rendezvous --rdzv-endpoint=127.0.0.1:$PORT"
    else
        rendezvous="--standalone"  # takes a free port
    fi

    # torchrun and MMEngine would also choose one thread for each process, with a warning for each variable.
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} MKL_NUM_THREADS=${MKL_NUM_THREADS:-1}
    errors=$(mktemp -d)
    # A store that outlives the workers would give a restarted worker stale addresses (pytorch/pytorch#135712).
    # shellcheck disable=SC2086
    TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 MMFLATTEN_ERROR_FOLDER=$errors PYTHONPATH="$here/..:${PYTHONPATH:-}" \
        "$python" -m torch.distributed.run $rendezvous --nproc-per-node="$processes" \
        --max-restarts="${MAX_RESTARTS:-0}" \
        "$here/$tool" "$@" --launcher pytorch
    status=$?
    # torchrun prints its own report after the worker's message, so print the message again.
    [ "$status" -ne 0 ] && ls -v "$errors" | tail -n 1 | xargs -I{} cat "$errors/{}" >&2
    rm -rf "$errors"
    return "$status"
}

# GPUS (8), GPUS_PER_NODE (8), CPUS_PER_TASK (5) and SRUN_ARGS set the allocation, MASTER_PORT (29500) the port.
launch_slurm() {
    local tool=$1 partition=$2 job_name=$3 gpus=${GPUS:-8} gpus_per_node=${GPUS_PER_NODE:-8} here
    shift 3
    here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
    if [ "$gpus" -lt "$gpus_per_node" ]; then
        gpus_per_node=$gpus
    fi
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
        "${PYTHON:-python}" -u "$here/$tool" "$@" --launcher slurm
}
