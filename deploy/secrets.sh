#!/bin/sh
# Writes .env beside compose.yaml: passwords drawn at random, and which worker to start. An .env that is there is left
# as it is: new passwords would not fit the databases that were made with the old.
#   deploy/secrets.sh [gpu|cpu]      without a word: gpu where there is an NVIDIA driver, else cpu
set -eu
cd "$(dirname "$0")/.."
if [ -e .env ]; then
  echo "$PWD/.env is there already; nothing was changed" >&2
  exit 1
fi
profile=${1:-$(command -v nvidia-smi >/dev/null 2>&1 && echo gpu || echo cpu)}
case $profile in
  gpu | cpu) ;;
  *) echo "usage: deploy/secrets.sh [gpu|cpu]" >&2 && exit 2 ;;
esac
draw() { od -An -tx1 -N"$1" /dev/urandom | tr -d ' \n'; }
umask 077
cat >.env <<END
COMPOSE_PROFILES=$profile
POSTGRES_PASSWORD=$(draw 24)
RABBITMQ_PASSWORD=$(draw 24)
S3_ACCESS_KEY_ID=$(draw 10)
S3_SECRET_ACCESS_KEY=$(draw 24)
SAFELIGHT_KEY_PEPPER=$(draw 32)
GRAFANA_PASSWORD=$(draw 16)
END
echo "$PWD/.env written, for the profile $profile. Keep a copy where backups are kept."
