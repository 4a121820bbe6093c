# mmflatten on NVIDIA GPUs. PyTorch's wheels bring CUDA; the host needs a driver for it and the NVIDIA Container Toolkit:
#     docker build -f docker/cuda.Dockerfile -t mmflatten:cuda .
#     docker run -it --gpus all --ipc=host --user "$(id -u)" -v "$PWD/data:/mmflatten/data" \
#         -v "$PWD/work_dirs:/mmflatten/work_dirs" mmflatten:cuda bash tools/dist_train.sh CONFIG 8
# --build-arg UV_TORCH_BACKEND=cu126 takes PyTorch's wheels for an older CUDA, here 12.6 (not tried). gcc is for Triton,
# which builds the launchers of the fused kernels.
FROM python:3.12-slim-bookworm
ARG UV_TORCH_BACKEND
ENV PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 PATH=/mmflatten/.venv/bin:$PATH \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /mmflatten
COPY LICENSE README.md pyproject.toml setup.py model-index.yml ./
COPY requirements requirements
COPY mmcv-torch-ops mmcv-torch-ops
COPY mmflatten mmflatten
COPY configs configs
COPY lab lab
COPY tools tools
RUN python requirements/install.py
# Any user may write files here, for --user "$(id -u)"; code and packages stay root's.
RUN useradd --uid 1000 --home-dir /mmflatten/home mmflatten && mkdir home data work_dirs && chmod 1777 . home data work_dirs
ENV HOME=/mmflatten/home USER=mmflatten
USER 1000
CMD ["mmflatten", "--help"]
