#!/bin/sh
# Makes the bucket of an S3-compatible storage where there is none yet. Reads BUCKET, S3_ENDPOINT, AWS_REGION,
# AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; the secret goes to curl by its standard input, never by an argument.
set -eu
status=$(
  printf 'user = "%s:%s"\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" |
    curl --silent --show-error --config - --retry 10 --retry-connrefused --retry-delay 1 --max-time 60 \
      --aws-sigv4 "aws:amz:$AWS_REGION:s3" --request PUT --output /dev/null --write-out '%{http_code}' "$S3_ENDPOINT/$BUCKET"
)
case $status in
  200) echo "bucket $BUCKET made" ;;
  409) echo "bucket $BUCKET is there" ;;
  *) echo "bucket $BUCKET: the storage at $S3_ENDPOINT answered $status" >&2 && exit 1 ;;
esac
