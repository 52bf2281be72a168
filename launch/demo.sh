#!/usr/bin/env bash
# From nothing to a judged model in one command: the docstrings of the installed packages become a data set, one classifier per
# label is trained on RANKS ranks (2), and the models are judged on rows they have not seen. All by default: with an intercept, the hinge
# loss, λ = X/m. Everything lies in ./demo.
set -euo pipefail
RANKS=${RANKS:-2}
source "$(dirname "$0")/setup.sh" mpi
HPCML_RANKS=$RANKS source launch/env.sh
mkdir -p demo

step() {  # step TITLE HPCML-ARGUMENTS...: show a command, then run it
  printf '\n== %s\n$ mpirun -n %s hpcml %s\n' "$1" "$RANKS" "${*:2}"
  run_ranks "$RANKS" hpcml "${@:2}"
}

step "A data set of real texts: the docstrings of the packages installed here; the labels are their modules" \
  convert docstrings -o demo/docstrings.h5 --min-df 2 --test-share 0.33 --seed 1 --force
step "One linear classifier, with an intercept, per label with at least ten examples" \
  train probe demo/docstrings.h5 -o demo/run --min-positives 10 --force
step "How good they are on the test rows" \
  evaluate demo/run/model.h5 demo/docstrings.h5 --split test

cat <<'NEXT'

== What to do next (after: source .venv/bin/activate)
your own data      hpcml convert svmlight my.svm -o my.h5 --test-share 0.3
on four ranks      mpirun -n 4 hpcml train probe my.h5 -o runs/mine
use the models     hpcml predict runs/mine/model.h5 new.h5 -o scores.csv
all the options    hpcml train --help
NEXT
