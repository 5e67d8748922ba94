#!/bin/bash
# real-systemd.sh runs this inside the first machine: the ten commands of docs/run.md, unchanged except for the two lines
# that operators must change.
set -u
cd /root || exit 1

# The token server, which is on another machine in production.
systemd-run -q --unit=upstream /project/dist/sync-bridge sandbox --upstream-only --token-port 9001 --storage-port 9002
for _ in $(seq 80); do journalctl -q -u upstream --grep TOKEN_SERVER_URL >/dev/null && break; sleep 0.1; done
# As on every installed Debian, plus a name for clients.
echo 127.0.0.1 localhost sync.localhost >/etc/hosts
cp /release.deb sync-bridge_0_amd64.deb
sed -n '/^## One machine/,/^## /{/^```sh/,/^```/{/^```/!p}}' /project/docs/run.md |
  sed -e 's/^HOST=.*/HOST=sync.localhost/' -e 's|^TOKEN_SERVER=.*|TOKEN_SERVER=http://127.0.0.1:9001|' >commands
cat commands

SECONDS=0
# curl trusts Caddy's own authority, and prompts get no input.
CURL_CA_BUNDLE=/var/lib/caddy/.local/share/caddy/pki/authorities/local/root.crt \
  bash commands </dev/null >said 2>&1
code=$?
tail -25 said
# The last line of what the page shows.
shown=$(sed -n '/^## One machine/,/^## /{/^```text/,/^```/{/^```/!p}}' /project/docs/run.md | tail -1)
if [ $code = 0 ] && [ $SECONDS -lt 600 ] && grep -q "^$shown" said && grep -q '"url":"https://sync.localhost/v1"' said; then
  echo "ok: ten commands, and it answers over HTTP/2 and TLS, in $SECONDS s"
  echo 'all as expected'
else
  echo "NOT OK: the ten commands ended with $code after $SECONDS s"
  journalctl -q -o cat -u caddy -u sync-bridge | tail -20
fi
