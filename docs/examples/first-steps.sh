#!/bin/sh
# The first steps with curl. BRIDGE_URL, BUCKET, BEARER_TOKEN and KEY_ID come from the environment: `sync-bridge sandbox`
# prints the name of a file that sets them, and docs/connect.md says how to get those of an account.
set -eu
: "${BRIDGE_URL:?is not set}" "${BUCKET:?is not set}" "${BEARER_TOKEN:?is not set}" "${KEY_ID:?is not set}"
BRIDGE_URL=${BRIDGE_URL%/}
BRIDGE_URL=${BRIDGE_URL%/v1}
# curl reads the token from its input, because other users of the machine can see the arguments of programs.
ask() {
  printf 'Authorization: Bearer %s\nX-KeyID: %s\n' "$BEARER_TOKEN" "$KEY_ID" |
    curl --silent --show-error --fail -H @- "$@"
}
bucket="$BRIDGE_URL/v1/buckets/$BUCKET"

echo "The service:"
ask "$BRIDGE_URL/v1/"
echo; echo "The collections, and when each last changed:"
ask "$bucket/collections"
echo; echo "How many bookmarks there are:"
ask --head "$bucket/collections/bookmarks/records" | grep -i '^total-records'
echo "The newest of them, and where the next page is:"
ask --dump-header - "$bucket/collections/bookmarks/records?_limit=1" | grep -iE '^(next-page|etag|\{)'
