# syntax=docker/dockerfile:1
# A worker, which renders: for NVIDIA's GPUs (CUDA comes with torch's wheels, the driver from the host), or for CPUs.
#   docker build -f deploy/docker/worker.Dockerfile --target gpu -t safelight-worker:gpu .
#   docker build -f deploy/docker/worker.Dockerfile --target cpu -t safelight-worker:cpu .
FROM python:3.11.15-slim-bookworm AS source
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
RUN python -m venv /opt/safelight
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY safelight safelight
COPY jobstore jobstore
COPY api api
COPY actors actors
COPY dashboards dashboards

FROM source AS build-gpu
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/safelight/bin/pip install --constraint constraints.txt '.[worker,quantize,litellm,otel]'

FROM source AS build-cpu
# PyTorch's own index has its builds without CUDA, a tenth of the size.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/safelight/bin/pip install --constraint constraints.txt --extra-index-url "$TORCH_INDEX" '.[worker,quantize,litellm,otel]'

FROM python:3.11.15-slim-bookworm AS base
LABEL org.opencontainers.image.title="Safelight worker" \
      org.opencontainers.image.description="A durable render queue for diffusion models: its worker" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 safelight \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/safelight --shell /usr/sbin/nologin safelight \
 && install -d -o 10001 -g 10001 -m 0750 /var/lib/safelight /var/cache/safelight
WORKDIR /srv/safelight
COPY models/scenes-flux models/scenes-flux
COPY safelight.toml deploy/docker/probe.py ./
# What is downloaded and compiled goes into one folder, which outlives the container as a volume.
ENV PATH=/opt/safelight/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    SAFELIGHT_CONFIG=/srv/safelight/safelight.toml SAFELIGHT_HOME=/var/lib/safelight \
    HF_HOME=/var/cache/safelight/huggingface HF_HUB_DISABLE_TELEMETRY=1 XDG_CACHE_HOME=/var/cache/safelight \
    TORCHINDUCTOR_CACHE_DIR=/var/cache/safelight/inductor TRITON_CACHE_DIR=/var/cache/safelight/triton
VOLUME /var/cache/safelight
EXPOSE 9091
HEALTHCHECK --interval=10s --timeout=5s --start-period=300s --retries=6 \
  CMD ["python", "/srv/safelight/probe.py", "http://127.0.0.1:9091/metrics"]
# In exec form: SIGTERM reaches Safelight itself, which finishes or hands back what it holds.
ENTRYPOINT ["safelight"]
CMD ["worker"]

FROM base AS cpu
COPY --from=build-cpu /opt/safelight /opt/safelight
USER 10001:10001

FROM base AS gpu
# Compiled blocks are built on the machine: Triton wants a C compiler where it runs.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc=4:12.* libc6-dev=2.36-* \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build-gpu /opt/safelight /opt/safelight
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001:10001
