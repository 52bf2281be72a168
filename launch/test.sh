#!/usr/bin/env bash
# All checks: style, tests without MPI, tests of whole jobs, tests on 1 to 4 ranks, the documentation, and the commands in it.
# usage: ./launch/test.sh [PYTEST-ARGUMENTS]      for instance: ./launch/test.sh -k probe
set -euo pipefail
source "$(dirname "$0")/setup.sh" mpi,test,docs
source launch/env.sh
summary=""

part() {  # part TITLE COMMAND...: run one part of the checks; the first that fails ends them all
  local begin=$SECONDS code=0
  printf '\n== %s\n' "$1"
  "${@:2}" || code=$?
  summary+=$(printf '%6d s  %s  %s' $((SECONDS - begin)) "$( ((code == 0)) && echo ok || echo FAILED)" "$1")$'\n'
  ((code == 0)) || finish "$code" "FAILED: $1 (exit code $code)"
}

finish() {  # finish CODE SENTENCE
  printf '\n%s%6d s  in all\n%s\n' "$summary" "$SECONDS" "$2"
  exit "$1"
}

tests() {  # tests RANKS PYTEST-ARGUMENTS...: under mpirun; choosing no test is no failure
  local code=0
  run_ranks "$1" python -m pytest -p no:cacheprovider "${@:2}" || code=$?
  return $((code == 5 ? 0 : code))
}

spread_tests() (  # spread_tests PYTEST-ARGUMENTS...: the tests that start without mpirun, spread over the cores by pytest-xdist
  workers=$(count_cores)
  workers=$((workers < 8 ? workers : 8))
  share_threads "$workers"
  code=0
  timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-20m}" \
    python -m pytest -p no:cacheprovider --numprocesses "$workers" --dist worksteal "$@" || code=$?
  exit $((code == 5 ? 0 : code))
)

slurm_tests() {  # slurm_tests PYTEST-ARGUMENTS...: skipped, with the reason, where no Slurm can run, unless HPCML_NEEDS_SLURM is set
  local code=0
  timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-10m}" python -m pytest -p no:cacheprovider -rs tests/slurm "$@" || code=$?
  return $((code == 5 ? 0 : code))
}

part "style: ruff check" ruff check --quiet
part "style: ruff format" ruff format --check --quiet
part "types: mypy" mypy hpcml
part "tests on 1 rank, and of whole jobs" spread_tests tests --with-mpi --ignore=tests/slurm "$@"
for ranks in 2 3 4; do
  part "tests on $ranks rank(s)" tests "$ranks" tests/mpi --with-mpi -m mpi "$@"
done
part "job scripts on a private Slurm" slurm_tests "$@"
part "the documentation: mkdocs build" env NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet
part "the commands of README.md and docs" python tests/support/document_commands.py
finish 0 "all checks passed"
