# Shared by the scripts that run inside the machine.
# shellcheck shell=bash
failures=0
ini=/etc/sync-bridge/sync-bridge.ini

expect() { # expect WHAT COMMAND…
  local what=$1
  shift
  if "$@" >/tmp/said 2>&1; then
    echo "ok: $what"
  else
    failures=$((failures + 1))
    echo "NOT OK: $what"
    tail -5 /tmp/said
  fi
}
until_true() { for _ in $(seq 80); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
main_pid() { systemctl show -P MainPID sync-bridge; }
restarts() { systemctl show -P NRestarts sync-bridge; }
logged() { journalctl -q -o cat -u sync-bridge | grep -q "$1"; }
set_setting() { sed -i "/^service\.$1 *=/d" $ini; echo "service.$1 = $2" >>$ini; }
alive() { sync-bridge healthcheck --url http://127.0.0.1:8000; }
answers_with() { bun -e "process.exit((await fetch('http://127.0.0.1:8000/v1/')).headers.get('$1') === '$2' ? 0 : 1)"; }
another_process() { [ "$(main_pid)" != "$1" ] && [ "$(main_pid)" != 0 ] && [ "$(systemctl is-active sync-bridge)" = active ]; }
is_scheduled() { chrt -p "$1" | grep -q "SCHED_$2$"; }
is_mode() { [ "$(stat -c '%a %U:%G' "$1")" = "$2" ]; }
complaints() { # systemd's warnings about the unit, without those that the crashes, hangs and bad settings below cause
  journalctl -q -o cat -p warning _PID=1 | grep -i sync-bridge |
    grep -vE 'process exited, code=|Failed with result|Failed to start|Watchdog timeout|Killing process|Reload failed'
}
no_complaint() { ! complaints; }
settled() { [ "$(systemctl show -P SubState sync-bridge)" = running ] && [ "$(pgrep -u sync-bridge -c sync-bridge)" = "$1" ]; }

load() { # 24 000 requests of 40 clients, half of which keep their connections; prints a report as JSON
  bun -e "
    const { startLoad } = await import('/project/tests/system/rolling-load.ts')
    const identity = { Authorization: 'Bearer $BEARER_TOKEN', 'X-KeyID': '$KEY_ID' }
    const collections = Array.from({ length: 40 }, (_, index) => 'restarts' + index)
    const plan = { url: 'http://127.0.0.1:8000', bucket: '$BUCKET', identity, collections, known: 'bookmarks', requests: 24000 }
    const { requests, freshConnections, failures, missing } = await startLoad(plan).report
    console.log(JSON.stringify({ requests, freshConnections, failures, missing: missing.length }))"
}
under_load() { # under_load WHAT MAY_LOSE TURNS COMMAND…: runs the command that many times while 40 clients send requests
  local what=$1 may_lose=$2 turns=$3 turn report
  shift 3
  load >/tmp/report &
  local loading=$!
  for turn in $(seq "$turns"); do
    sleep 1
    "$@" >/tmp/said 2>&1 || { echo "NOT OK: $what"; cat /tmp/said; failures=$((failures + 1)); }
  done
  wait $loading
  report=$(tail -1 /tmp/report)
  case $may_lose$report in
  no*'"failures":{},"missing":0'*) echo "ok: $what, 40 clients: $report" ;;
  yes*'"missing":0'*) echo "ok: $what, 40 clients, losses are expected: $report" ;;
  *) failures=$((failures + 1)) && echo "NOT OK: $what: $report" ;;
  esac
}

start_upstream() { # a storage with sample data; sets TOKEN_SERVER_URL and the user's variables, and lets the unit log everything
  systemd-run -q --unit=upstream sync-bridge sandbox --upstream-only --token-port 9001 --storage-port 9002
  until_true journalctl -q -u upstream --grep SYNC_KEY
  eval "$(journalctl -q -o cat -u upstream | grep -E '^(BUCKET|KEY_ID|BEARER_TOKEN|TOKEN_SERVER_URL)=')"
  mkdir -p /run/systemd/system/sync-bridge.service.d
  printf '[Service]\nWatchdogSec=4\nLogRateLimitIntervalSec=0\n' >/run/systemd/system/sync-bridge.service.d/quick.conf
  systemctl daemon-reload
}
finish() {
  if [ $failures = 0 ]; then echo 'all as expected'; else
    echo "$failures NOT OK"
    journalctl -q -o cat -u sync-bridge | tail -40
  fi
}
