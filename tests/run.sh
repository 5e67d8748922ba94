#!/bin/bash
# Runs all tests, or the named ones, and prints a summary line at the end. Tests whose programs are missing on this machine are
# skipped and counted; with NO_SKIPS=1 that is a failure.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
# Debian's servers are there, but not in an ordinary user's PATH.
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
# The output of all bridges during the tests.
export PRINTED_BY_BRIDGES=$(mktemp)
trap 'rm -f "$log" "$PRINTED_BY_BRIDGES"' EXIT
code=0

# The runner may be several words: "npx --yes bun@VERSION".
run() { ${BUN:-bun} test --timeout 120000 "$@" 2>&1 | tee -a "$log" || code=1; }

if [ $# -gt 0 ]; then
  run "$@"
else
  files() { find "$@" -name '*.test.ts' | sort | grep -vxF -f <(printf '%s\n' "${left_out[@]:-none}"); }
  # Files of a worker share the modules that they import, which saves a tenth of the time. Five workers, because many tests wait.
  # Those of processes wait longest, so they begin first.
  run --parallel=5 --no-isolate $(files tests/system) $(files tests -not -path 'tests/system/*')
fi

count() { grep -Eo "^ *[0-9]+ $1\$" "$log" | awk '{ total += $1 } END { print total + 0 }'; }
passed=$(count pass)
failed=$(count fail)
skipped=$((skipped + $(count skip)))
# A runner that dies before its summary has failed, whatever it had counted.
[ "$code" = 0 ] || [ "$failed" != 0 ] || failed=1
[ "$passed" != 0 ] || code=1

# The patterns of secrets: tokens, assertions and Hawk ids; key ids; Hawk keys; client states and secrets of the cache.
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
  ${BUN:-bun} tests/support/machine.ts
  [ ${#left_out[@]} = 0 ] || printf 'Not run: %s\n' "${left_out[*]}"
  [ -z "${NO_SKIPS:-}" ] || code=1
fi
echo
# Repeats the failures, because often only the end of a long output is kept.
awk '/^\(pass\) /{text=""; next} {text=text $0 "\n"} /^\(fail\) /{if(!seen[$0]++) printf "%s", text; text=""}' "$log" |
  cut -c 1-400 | tail -60
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
exit "$code"
