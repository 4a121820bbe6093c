# mmflatten on CPUs:
#     docker build -f docker/cpu.Dockerfile -t mmflatten:cpu .
#     docker run -it -v "$PWD/data:/mmflatten/data" -v "$PWD/work_dirs:/mmflatten/work_dirs" mmflatten:cpu mmflatten --help
# PyTorch's ordinary wheels bring gigabytes of CUDA libraries; --build-arg PIP_EXTRA_INDEX_URL=URL with PyTorch's index of
# CPU wheels leaves them out.
FROM python:3.12-slim-bookworm
ARG PIP_EXTRA_INDEX_URL
ENV PIP_NO_CACHE_DIR=1 PATH=/mmflatten/.venv/bin:$PATH
RUN apt-get update && apt-get install -y --no-install-recommends g++ make && rm -rf /var/lib/apt/lists/*
WORKDIR /mmflatten
COPY Makefile LICENSE README.md pyproject.toml setup.py model-index.yml ./
COPY requirements requirements
COPY mmflatten mmflatten
COPY configs configs
COPY studies studies
COPY tools tools
RUN make setup
CMD ["mmflatten", "--help"]
