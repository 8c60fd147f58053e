#!/bin/sh
# Makes sure that there are Prometheus and promtool for the tests of dashboards and alerts: finds them, or unpacks
# Debian's package into .venv. It is not installed: that would start a service.
set -eu
have() { command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1; }
venv=$(dirname "$0")/../../.venv
have && exit 0
[ -x "$venv/bin/prometheus" ] && [ -x "$venv/bin/promtool" ] && exit 0
if command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1; then
  echo "Unpacking Prometheus for the tests of dashboards and alerts…"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  chmod 755 "$folder"
  [ "$(id -u)" != 0 ] || apt-get update -qq
  if (cd "$folder" && apt-get download -qq prometheus >/dev/null 2>&1) && dpkg-deb -x "$folder"/prometheus_*.deb "$folder"; then
    mv "$folder/usr/bin/prometheus" "$folder/usr/bin/promtool" "$venv/bin/" && exit 0
  fi
fi
echo "The tests of dashboards and alerts need Prometheus: install it (Debian: apt-get install prometheus), or put" >&2
echo "prometheus and promtool into .venv/bin." >&2
exit 1
