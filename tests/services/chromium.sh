#!/bin/sh
# Makes sure that there is a Chromium for the browser tests: finds one, or installs Debian's when it may.
set -eu
for browser in "${SAFELIGHT_CHROMIUM:-}" chromium chromium-browser google-chrome; do
  [ -n "$browser" ] && command -v "$browser" >/dev/null 2>&1 && exit 0
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "Installing Chromium for the browser tests…"
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
else
  echo "The browser tests need Chromium: install it (Debian: apt-get install chromium) or set SAFELIGHT_CHROMIUM." >&2
  exit 1
fi
