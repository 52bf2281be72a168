#!/usr/bin/env bash
# PROBE and dual beside LIBLINEAR on Reuters-21578, 20 Newsgroups, MeSH and the docstrings corpus, with an intercept first, without it (the
# PROBE paper's protocol) second: measures and training time, JSON lines and the tables of `hpcml bench ovr`; and one pass over the rows
# beside scipy. Needs the folder of real data that HPCML_DATA names (without it: the docstrings only).
# usage: [RANKS=2] [RACES="--bias --no-bias"] [REPEATS=3] ./launch/bench/quality.sh [DOCUMENTS.jsonl]      DOCUMENTS: these instead of
#        the corpora; RACES: of the measurements of time, only those with, or without an intercept; REPEATS: how often PROBE is timed
set -euo pipefail
RANKS=${RANKS:-2}
REPEATS=${REPEATS:-3}
read -ra races <<<"${RACES:---bias --no-bias}"
documents=$(realpath -- "${1:-.}")
source "$(dirname "$0")/../setup.sh" mpi
HPCML_RANKS=$RANKS source launch/env.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '{"commit": "%s", "ranks": %s, "threads": %s}\n' "$(git rev-parse --short HEAD)" "$RANKS" "$OMP_NUM_THREADS"

compare() {  # compare NAME TRAIN-OPTIONS...
  local protocol
  for protocol in --bias --no-bias; do
    run_ranks "$RANKS" hpcml train probe "$work/$1.h5" -o "$work/$1" "$protocol" --force "${@:2}" 2>&1 | tail -n 1 >&2
    python launch/bench/compare_liblinear.py "$work/$1.h5" "$work/$1"
  done
  hpcml bench pass "$work/$1.h5"
}

race() {  # race NAME MIN-DOCUMENTS MIN-POSITIVES: training time of PROBE, then of dual, beside LIBLINEAR's
  local protocol
  for protocol in "${races[@]}"; do
    python launch/bench/speed.py "$work/$1.h5" --ranks "$RANKS" --repeats "$REPEATS" --min-documents "$2" "$protocol"
    run_ranks "$RANKS" hpcml bench ovr "$work/$1.h5" -o "$work/ovr" --peer none --min-positives "$3" --repeat 2 "$protocol" --force
  done
}

if (($#)); then
  run_ranks "$RANKS" hpcml convert jsonl "$documents" -o "$work/documents.h5" --test-share 0.33 --seed 1 >&2
  compare documents
  race documents 5 5
  exit
fi
if [[ -n ${HPCML_DATA:-} ]]; then
  topics=(earn acq money-fx grain crude trade interest wheat ship corn)
  run_ranks "$RANKS" hpcml convert jsonl "$HPCML_DATA/reuters21578.jsonl.xz" -o "$work/reuters.h5" >&2
  compare reuters "${topics[@]/#/--label=}"
  race reuters 10 10
  run_ranks "$RANKS" hpcml convert jsonl "$HPCML_DATA/20newsgroups.jsonl.xz" -o "$work/newsgroups.h5" >&2
  compare newsgroups
  race newsgroups 1 1
  run_ranks "$RANKS" hpcml convert jsonl "$HPCML_DATA/mesh.jsonl.xz" -o "$work/mesh.h5" --test-share 0.33 --seed 1 >&2
  compare mesh --min-positives 50
  race mesh 50 10
fi
run_ranks "$RANKS" hpcml convert docstrings -o "$work/docstrings.h5" --min-df 2 --test-share 0.33 --seed 1 >&2
compare docstrings --min-positives 10
race docstrings 15 10
