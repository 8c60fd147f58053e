# syntax=docker/dockerfile:1
# The API, and every other command that needs no torch. Built from the repository's root:
#   docker build -f deploy/docker/api.Dockerfile -t safelight-api:local .
FROM python:3.11.15-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
RUN python -m venv /opt/safelight
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY safelight safelight
COPY jobstore jobstore
COPY api api
COPY actors actors
COPY dashboards dashboards
RUN --mount=type=cache,target=/root/.cache/pip /opt/safelight/bin/pip install --constraint constraints.txt '.[grpc,otel]'

FROM python:3.11.15-slim-bookworm
LABEL org.opencontainers.image.title="Safelight API" \
      org.opencontainers.image.description="A durable render queue for diffusion models: its API" \
      org.opencontainers.image.licenses="Apache-2.0"
# /data and /keys are there for compose.yaml: a new volume takes over their owner.
RUN groupadd --gid 10001 safelight \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/safelight --shell /usr/sbin/nologin safelight \
 && install -d -o 10001 -g 10001 -m 0750 /var/lib/safelight /data /keys
WORKDIR /srv/safelight
COPY models/scenes-flux models/scenes-flux
COPY safelight.toml deploy/docker/probe.py ./
COPY --from=build /opt/safelight /opt/safelight
ENV PATH=/opt/safelight/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    SAFELIGHT_CONFIG=/srv/safelight/safelight.toml SAFELIGHT_HOME=/var/lib/safelight
USER 10001:10001
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=6 \
  CMD ["python", "/srv/safelight/probe.py", "http://127.0.0.1:8080/livez"]
# In exec form: SIGTERM reaches Safelight itself, which finishes what is in flight.
ENTRYPOINT ["safelight"]
CMD ["api", "--host", "0.0.0.0", "--no-migrate"]
