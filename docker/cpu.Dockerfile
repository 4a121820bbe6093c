# mmflatten on CPUs:
#     docker build -f docker/cpu.Dockerfile -t mmflatten:cpu .
#     docker run -it --user "$(id -u)" -v "$PWD/data:/mmflatten/data" -v "$PWD/work_dirs:/mmflatten/work_dirs" \
#         mmflatten:cpu mmflatten --help
# PyTorch's ordinary wheels bring gigabytes of CUDA libraries; --build-arg UV_TORCH_BACKEND=cpu takes its CPU wheels.
FROM python:3.12-slim-bookworm
ARG UV_TORCH_BACKEND
ENV PIP_NO_CACHE_DIR=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=1 PATH=/mmflatten/.venv/bin:$PATH
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
