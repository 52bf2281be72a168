#!/usr/bin/env bash
# Converts the docstrings of the installed packages to a data set, tunes and trains a linear classifier per label on RANKS ranks
# (default: 2), evaluates the model on test rows, writes a report, and predicts the labels of new texts. All files are in ./demo.
set -euo pipefail
RANKS=${RANKS:-2}
source "$(dirname "$0")/setup.sh" mpi,report
source launch/env.sh
mkdir -p demo

step() {  # step TITLE HPCML-ARGUMENTS...: print a command and run it
  printf '\n== %s\n$ mpirun -n %s hpcml %s\n' "$1" "$RANKS" "${*:2}"
  run_ranks "$RANKS" hpcml "${@:2}"
}

step "Convert the docstrings of the installed packages; the labels are their modules" \
  convert docstrings -o demo/docstrings.h5 --min-df 2 --test-share 0.33 --seed 1 --force
step "Tune a linear classifier for each label with at least ten positive rows" \
  tune demo/docstrings.h5 -o demo/run --min-positives 10 --force
step "Evaluate on the test rows" \
  evaluate demo/run demo/docstrings.h5 --split test
step "Write a report for a browser" \
  report demo/run --split test -o demo/report.html --force
printf '%s\n' '{"text": "Return the inverse of a square matrix."}' '{"text": "Open a socket and send a request."}' >demo/new.jsonl
step "Predict labels of new texts" \
  predict demo/run demo/new.jsonl -o demo/labels.csv --top 3 --force
cat demo/labels.csv

cat <<'NEXT'

The report: demo/report.html

== Next steps (after: source .venv/bin/activate)
your own data      hpcml convert csv my.csv --text title,text --labels topics -o my.h5 --test-share 0.3
                   mpirun -n 4 hpcml tune my.h5 -o runs/mine
label new texts    hpcml predict runs/mine new.csv -o labels.csv                (needs only runs/mine/model.h5)
all the options    hpcml --help
NEXT
