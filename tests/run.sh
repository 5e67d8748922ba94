#!/bin/bash
# Runs all tests and ends with a line that counts them. Programs that the tests start and this machine lacks are installed
# from Debian's packages first.
set -u -o pipefail
shopt -s extglob
cd "$(dirname "$0")/.." || exit 1

missing=()
for program in redis-server:redis-server promtool:prometheus chromium:chromium haproxy:haproxy nginx:nginx-light openssl:openssl \
  systemd-analyze:systemd firefox-esr:firefox-esr; do
  command -v "${program%%:*}" >/dev/null || missing+=("${program#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing ${missing[*]} ..."
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  export DEBIAN_FRONTEND=noninteractive
  { "${as_root[@]}" apt-get update -qq && "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"; } \
    >/dev/null || { echo "Cannot install ${missing[*]}: install them by hand, then run this again"; exit 1; }
fi

log=$(mktemp)
# Everything that bridges print during the tests.
export PRINTED_BY_BRIDGES=$(mktemp)
trap 'rm -f "$log" "$PRINTED_BY_BRIDGES"' EXIT
code=0

# The runner may be several words: "npx --yes bun@VERSION".
run() { ${BUN:-bun} test --timeout 120000 "$@" 2>&1 | tee -a "$log" || code=1; }

if [ $# -gt 0 ]; then
  run "$@"
else
  run --parallel=3 tests/!(browser|run.sh)
  # A browser that draws without a graphics card wants the machine for itself.
  run tests/browser
fi

count() { grep -Eo "^ *[0-9]+ $1\$" "$log" | awk '{ total += $1 } END { print total + 0 }'; }
passed=$(count pass)
failed=$(count fail)
skipped=$(count skip)
# A runner that dies before it counts has failed, whatever it had counted.
[ "$code" = 0 ] || [ "$failed" != 0 ] || failed=1
[ "$passed" != 0 ] || code=1

# What secrets look like: tokens, assertions and Hawk ids; key ids; Hawk keys; client states and secrets of the cache.
secret='eyJ[A-Za-z0-9_-]{20}|(^|[^0-9])[0-9]{13}-[A-Za-z0-9_-]{22}([^A-Za-z0-9_-]|$)|[A-Za-z0-9_-]{43}=|[0-9a-f]{32}'
leaks=$(grep -cE "$secret" "$PRINTED_BY_BRIDGES")
if [ "$leaks" != 0 ]; then
  code=1
  failed=$((failed + 1))
  echo
  echo "Secrets are in $leaks lines that bridges have printed, for example:"
  grep -E "$secret" "$PRINTED_BY_BRIDGES" | cut -c 1-300 | head -5
elif [ -s "$PRINTED_BY_BRIDGES" ]; then
  echo
  echo "No secret is in the $(wc -l <"$PRINTED_BY_BRIDGES") lines that bridges have printed"
fi
echo
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
exit "$code"
