#!/usr/bin/env bash
# PROBE beside LIBLINEAR on Reuters-21578 (ten largest topics), 20 Newsgroups and the docstrings corpus, and one pass over the rows
# beside scipy: JSON lines. Needs the folder of real data that HPCML_DATA names (the first two are skipped without it).
# usage: [RANKS=2] ./launch/bench/quality.sh
set -euo pipefail
RANKS=${RANKS:-2}
source "$(dirname "$0")/../setup.sh" mpi
HPCML_RANKS=$RANKS source launch/env.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '{"commit": "%s", "ranks": %s, "threads": %s}\n' "$(git rev-parse --short HEAD)" "$RANKS" "$OMP_NUM_THREADS"

compare() {  # compare NAME TRAIN-OPTIONS...
  run_ranks "$RANKS" hpcml train probe "$work/$1.h5" -o "$work/$1" "${@:2}" 2>&1 | tail -n 1 >&2
  python launch/bench/compare_liblinear.py "$work/$1.h5" "$work/$1"
  hpcml bench pass "$work/$1.h5"
}

if [[ -n ${HPCML_DATA:-} ]]; then
  topics=(earn acq money-fx grain crude trade interest wheat ship corn)
  run_ranks "$RANKS" hpcml convert jsonl "$HPCML_DATA/reuters21578.jsonl.xz" -o "$work/reuters.h5" >&2
  compare reuters "${topics[@]/#/--label=}"
  run_ranks "$RANKS" hpcml convert jsonl "$HPCML_DATA/20newsgroups.jsonl.xz" -o "$work/newsgroups.h5" >&2
  compare newsgroups
fi
run_ranks "$RANKS" hpcml convert docstrings -o "$work/docstrings.h5" --min-df 2 --test-share 0.33 --seed 1 >&2
compare docstrings --min-positives 10
