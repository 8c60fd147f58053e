#!/bin/sh
# Makes the API key that Prometheus scrapes with, once, and keeps it in the file that is named. It is an admin's, as
# metrics are for admins where the API can be reached from other machines; the API starts there only when there is one.
set -eu
file=$1
if [ -s "$file" ]; then
  exit 0
fi
umask 027 # Prometheus reads the file by its group
safelight keys create prometheus --admin >"$file.new"
mv "$file.new" "$file"
