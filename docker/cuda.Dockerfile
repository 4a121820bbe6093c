# mmflatten on NVIDIA GPUs; the toolkit compiles mmcv's operators and is that of the pinned PyTorch, CUDA 13.0:
#     docker build -f docker/cuda.Dockerfile -t mmflatten:cuda .
#     docker run -it --gpus all --ipc=host -v "$PWD/data:/mmflatten/data" -v "$PWD/work_dirs:/mmflatten/work_dirs" \
#         mmflatten:cuda bash tools/dist_train.sh CONFIG 8
# TORCH_CUDA_ARCH_LIST names the GPUs that operators are compiled for: 8.0 is an A100, 9.0 an H100 or H200.
FROM nvidia/cuda:13.0.2-devel-ubuntu24.04
ARG TORCH_CUDA_ARCH_LIST="8.0;9.0"
ENV PIP_NO_CACHE_DIR=1 FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST=$TORCH_CUDA_ARCH_LIST PATH=/mmflatten/.venv/bin:$PATH
RUN apt-get update && apt-get install -y --no-install-recommends g++ make python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /mmflatten
COPY Makefile LICENSE README.md pyproject.toml setup.py model-index.yml ./
COPY requirements requirements
COPY mmflatten mmflatten
COPY configs configs
COPY studies studies
COPY tools tools
RUN make setup
CMD ["mmflatten", "--help"]
