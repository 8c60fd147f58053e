#!/bin/sh
# Makes the API key that Prometheus scrapes with, once, and keeps it in the file that is named: it may look, and change
# nothing. The API starts where other machines reach it only when there is an admin key, so one is made before, whose
# secret nobody gets to see: make your own, and revoke this one.
set -eu
file=$1
if [ -s "$file" ]; then
  exit 0
fi
umask 027 # Prometheus reads the file by its group
safelight keys create first-start --admin >/dev/null
safelight keys create prometheus --scope observe >"$file.new"
mv "$file.new" "$file"
