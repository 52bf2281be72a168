#!/usr/bin/env bash
# From nothing to a judged model in one command: the docstrings of the installed packages become a data set; on RANKS ranks (2) λ and
# the weight of positive rows are chosen for each label, one classifier per label is trained, with a threshold and probabilities, and
# the models are judged on rows that they have not seen and label new texts. Everything lies in ./demo.
set -euo pipefail
RANKS=${RANKS:-2}
source "$(dirname "$0")/setup.sh" mpi,report
source launch/env.sh
mkdir -p demo

step() {  # step TITLE HPCML-ARGUMENTS...: show a command, then run it
  printf '\n== %s\n$ mpirun -n %s hpcml %s\n' "$1" "$RANKS" "${*:2}"
  run_ranks "$RANKS" hpcml "${@:2}"
}

step "A data set of real texts: the docstrings of the packages installed here; the labels are their modules" \
  convert docstrings -o demo/docstrings.h5 --min-df 2 --test-share 0.33 --seed 1 --force
step "A linear classifier per label with at least ten examples, with its own λ, weight and threshold" \
  tune demo/docstrings.h5 -o demo/run --min-positives 10 --force
step "How good they are on the test rows" \
  evaluate demo/run demo/docstrings.h5 --split test
step "A page about them, for a browser" \
  report demo/run --split test -o demo/report.html --force
printf '%s\n' '{"text": "Return the inverse of a square matrix."}' '{"text": "Open a socket and send a request."}' >demo/new.jsonl
step "Labels of new texts" \
  predict demo/run demo/new.jsonl -o demo/labels.csv --top 3 --force
cat demo/labels.csv

cat <<'NEXT'

The page: demo/report.html

== What to do next (after: source .venv/bin/activate)
your own data      hpcml convert csv my.csv --text title,text --labels topics -o my.h5 --test-share 0.3
                   mpirun -n 4 hpcml tune my.h5 -o runs/mine
label new texts    hpcml predict runs/mine new.csv -o labels.csv                (runs/mine/model.h5 is all that it needs)
all the options    hpcml --help
NEXT
