#!/bin/bash
# Runs all tests, or those that are named, and ends with a line that counts them. Tests whose program this machine lacks are
# skipped and counted; with NO_SKIPS=1 that is a failure.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
# Where Debian has servers; an ordinary user does not look there.
export PATH=$PATH:/usr/sbin:/sbin

packages=$(bash tests/tools.sh)
left_out=()
skipped=0
if [ -n "$packages" ]; then
  missing=()
  for program in redis-server chromium haproxy nginx caddy openssl promtool systemd-analyze curl rpm ssh-keygen man; do
    command -v $program >/dev/null || missing+=("$program")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    while IFS=$'\t' read -r file count; do
      left_out+=("$file")
      skipped=$((skipped + count))
    done < <(${BUN:-bun} tests/needs.ts "${missing[@]}")
  fi
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
  files() { find "$@" -name '*.test.ts' | sort | grep -vxF -f <(printf '%s\n' "${left_out[@]:-none}"); }
  others=$(files tests -not -path 'tests/browser/*' -not -path 'tests/firefox/*' -not -path 'tests/attacks/*' \
    -not -path 'tests/costs/*' -not -name troubleshooting.test.ts)
  # Files of a worker share the modules that they import, which saves a tenth of the time.
  run --parallel=3 --no-isolate $others
  # Browsers draw without a graphics card, so two of them take the whole machine.
  browsers=$(files tests/browser tests/firefox)
  [ -z "$browsers" ] || run --parallel=2 --no-isolate $browsers
  # What measures processor time, and a process that is to be late by its own fault, want one neighbour at most.
  measured=$(files tests/costs tests/operate/troubleshooting.test.ts)
  [ -z "$measured" ] || run --parallel=2 $measured
  # What other users feel of an attack is to be the bridge's doing alone.
  attacks=$(files tests/attacks)
  [ -z "$attacks" ] || run $attacks
fi

count() { grep -Eo "^ *[0-9]+ $1\$" "$log" | awk '{ total += $1 } END { print total + 0 }'; }
passed=$(count pass)
failed=$(count fail)
skipped=$((skipped + $(count skip)))
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
if [ "$skipped" != 0 ]; then
  echo
  [ -z "$packages" ] || echo "Programs are missing: \"make test-tools\" installs $packages"
  node=$(node --version 2>/dev/null || echo none)
  [ "$(echo "$node" | grep -Eo '[0-9]+' | head -1)" -ge 20 ] 2>/dev/null ||
    echo "Node 20 or later is missing, this machine has $node: https://nodejs.org has it"
  [ ${#left_out[@]} = 0 ] || printf 'Not run: %s\n' "${left_out[*]}"
  [ -z "${NO_SKIPS:-}" ] || code=1
fi
echo
# What failed is said again, because of a long output often only the end is kept.
awk '/^\(pass\) /{text=""; next} {text=text $0 "\n"} /^\(fail\) /{if(!seen[$0]++) printf "%s", text; text=""}' "$log" |
  cut -c 1-400 | tail -60
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
exit "$code"
