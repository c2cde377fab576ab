#!/usr/bin/env bash
# Finds or installs what `make bench-peers` compares spool with, builds, and
# measures. Its arguments are those of the program; run it with -help.
#
# As root it installs missing servers by apt-get; a service that the package
# starts is not the one that is measured. What cannot be had is in the table.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
go=${GO:-go}

redis=0 # whether a Redis server is all that is needed
for arg in "$@"; do [[ $arg == -redis ]] && redis=1; done

# packages by program, as Debian has them
missing=()
have() { command -v "$1" >/dev/null || compgen -G "$2" >/dev/null; }
have redis-server '/usr/bin/redis-server' || missing+=(redis-server)
((redis)) || have beanstalkd '/usr/bin/beanstalkd' || missing+=(beanstalkd)
((redis)) || have postgres '/usr/lib/postgresql/*/bin/postgres' || missing+=(postgresql)
"${CC:-cc}" --version >/dev/null 2>&1 || missing+=(gcc libc6-dev) # for the SQLite driver in C
if ((${#missing[@]})); then
	if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
		echo "installing ${missing[*]}" >&2
		{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >&2 || echo "apt-get could not install all of: ${missing[*]}" >&2
	else
		echo "not installed, and this is not root with apt-get: ${missing[*]}" >&2
	fi
fi

BENCH_BIN=$(mktemp -d)
export BENCH_BIN
trap 'rm -rf "$BENCH_BIN"' EXIT
trap 'exit 1' INT TERM HUP # which comes to the line above
echo "building; the first time it takes two minutes" >&2
CGO_ENABLED=1 "$go" -C "$here" build -o "$BENCH_BIN/bench" .
((redis)) || "$go" -C "$here" build -o "$BENCH_BIN/nats-server" github.com/nats-io/nats-server/v2 || echo "nats-server could not be built" >&2

schema=$("$go" -C "$here" list -m -f '{{.Dir}}' maragu.dev/goqite)/schema_sqlite.sql
# A signal to this shell goes on to the program, which stops its servers.
"$BENCH_BIN/bench" -goqite-schema "$schema" "$@" &
pid=$!
trap 'kill -TERM $pid 2>/dev/null || true' INT TERM HUP
code=0
wait $pid || code=$?
while kill -0 $pid 2>/dev/null; do wait $pid || code=$?; done
exit $code
