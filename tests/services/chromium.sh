#!/bin/sh
# Makes sure that there is a Chromium for the browser tests: finds one, or installs Debian's when it may. The shell
# without windows is asked for first: the whole browser renders a frame of its own around every page.
set -eu
for browser in "${SAFELIGHT_CHROMIUM:-}" chromium-headless-shell; do
  [ -n "$browser" ] && command -v "$browser" >/dev/null 2>&1 && exit 0
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "Installing Chromium for the browser tests…"
  apt-get update -qq || true
  for package in chromium-headless-shell chromium; do
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null && exit 0
  done
fi
for browser in chromium chromium-browser google-chrome; do
  command -v "$browser" >/dev/null 2>&1 && exit 0
done
echo "The browser tests need Chromium: install it (Debian: apt-get install chromium-headless-shell) or set SAFELIGHT_CHROMIUM." >&2
exit 1
