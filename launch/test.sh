#!/usr/bin/env bash
# All checks: style, tests without MPI, tests of whole jobs, tests on 1 to 4 ranks, the documentation, and the commands in it.
# Four rows of parts run beside each other: jobs under Slurm, what has one process, ranks that wait for each other, and the rest.
# A part that fails ends those behind it in its row.
#
# Tests that change rarely matter belong to parts (tests/support/parts.py). A part runs if its inputs have changed since the commit
# in .ci/all-passed, and with --all. The last lines say what was left out. When --all passes with real data (HPCML_DATA) on a tree
# without changes, it writes that commit to .ci/all-passed.
#
# Compiled kernels, Slurm's packages and environments of other versions are kept in ~/.cache/hpcml; mypy's cache is not, because mypy
# can crash on the cache of an older tree. HPCML_FRESH=1 makes the environments anew.
# usage: ./launch/test.sh [--all] [PYTEST-ARGUMENTS]      for instance: ./launch/test.sh -k probe
set -euo pipefail
source "$(dirname "$0")/setup.sh" mpi,test,docs
source launch/env.sh
export OMP_NUM_THREADS=1  # the tests of ranks share the cores
everything=""
if [[ ${1:-} == --all ]]; then
  everything=--all
  shift
  export HPCML_NEEDS_SLURM=1 HPCML_NEEDS_BROWSER=1 HPCML_NEEDS_LOWEST_VERSIONS=1
fi
kept=${XDG_CACHE_HOME:-${HOME:?}/.cache}/hpcml
mkdir -p "$kept"
HPCML_PARTS=$(python tests/support/parts.py run $everything)
export HPCML_PARTS
# of tests/mpi, those that divide ranks into groups of two, lay them out as a torus, or have each talk to its neighbours; to all
# others 2 and 4 ranks are what 3 are
GROUPS_OF_RANKS=(test_{collectives,memory,messages,node_rows,psbml}.py test_dual_ranks.py::test_groups_of_two_that_share_the_rows
  test_methods_ranks.py::test_ranks_that_share_the_rows)
# with the lowest versions, beside `hpcml check --bits`, which trains, tunes, scores, judges and calibrates by every method: what reads,
# converts and saves, and the estimators
LOWEST_VERSIONS=(tests/unit/{conversion/test_{formats,split},data/test_shard,files/test_open_elsewhere,model/test_skops_file}.py
  tests/conformance/test_estimators.py::test_{classes,label_sets_where_they_can_be_learnt})
scratch=$(mktemp -d)
# in memory, if there is room, for the tests of many ranks, which would mostly wait for the disk; the other parts use that
in_memory=$scratch
export HPCML_LEFT_OUT=$scratch/left_out
free=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1) || free=0
if ((free > 2 ** 21)); then in_memory=$(mktemp -d /dev/shm/hpcml-tests-XXXXXX); fi
# some thousand processes start: each would compile again what none may keep
unset PYTHONDONTWRITEBYTECODE
# one folder of compiled kernels for all parts; jobs under Slurm would have one of their own
NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$(python -c "from hpcml.kernels.cache import cache_folder; print(cache_folder())")}
export NUMBA_CACHE_DIR
has_part() { [[ " $HPCML_PARTS " == *" $1 "* ]]; }
beside=()
trap 'for row in "${beside[@]}"; do kill -INT -- "-$row" 2>/dev/null && wait "$row" || true; done; rm -rf "$scratch" "$in_memory"' EXIT

processor_seconds() {  # into $used: of all that this shell has started and seen end
  local file=$scratch/times.$BASHPID
  times >"$file"
  used=$(awk -F'[ms ]+' 'NR == 2 {printf "%d", 60 * ($1 + $3) + $2 + $4}' "$file")
}

part() {  # part TITLE COMMAND...: run one part of the checks
  local begin=$SECONDS code=0 used before
  printf '\n== %s\n' "$1"
  processor_seconds
  before=$used
  "${@:2}" || code=$?
  processor_seconds
  printf '%6d s %6d CPU s  %s  %s\n' $((SECONDS - begin)) $((used - before)) "$( ((code == 0)) && echo ok || echo "FAILED (exit code $code)")" "$1" >>"$scratch/summary"
  return "$code"
}

tests() {  # tests RANKS PYTEST-ARGUMENTS...: under mpirun; choosing no test is no failure
  local code=0
  TMPDIR=$in_memory run_ranks "$1" python -m pytest -p no:cacheprovider "${@:2}" || code=$?
  return $((code == 5 ? 0 : code))
}

spread_tests() (  # spread_tests PYTEST-ARGUMENTS...: the tests that start without mpirun, spread over the cores by pytest-xdist
  workers=$(count_cores)
  workers=$((workers < 8 ? workers : 8))
  code=0
  timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-40m}" \
    python -m pytest -p no:cacheprovider --numprocesses "$workers" --dist worksteal "$@" || code=$?
  exit $((code == 5 ? 0 : code))
)

slurm_tests() {  # slurm_tests PYTEST-ARGUMENTS...: skipped, with the reason, where no Slurm can run, unless HPCML_NEEDS_SLURM is set
  # up to the first that fails, which says what happens in that Slurm. When time is up, as at Ctrl-C, the tests take it down
  local code=0 folder=$scratch/slurm
  timeout --foreground --signal=INT --kill-after=60 "${HPCML_TIMEOUT:-20m}" \
    python -m pytest -p no:cacheprovider -vv -x -rs --basetemp="$folder" tests/slurm "$@" || code=$?
  HPCML_SLURM=$folder/slurm0/here launch/slurm-here.sh down  # if they could not
  return $((code == 5 ? 0 : code))
}

# what `pip install '.[all]'` brings: in the lowest versions that pyproject.toml admits, or with other Pythons in the newest
EXTRAS=mpi,tables,h5ad,zst,pubmed,serve,report,sklearn,svmperf
TOOLS=(pytest pytest-mpi pytest-timeout hypothesis anndata 'pandas<3' mpmath setuptools)

make_environment() {  # make_environment NAME PYTHON REQUIREMENTS...: a virtual environment with these, into $environment; prints versions
  # kept by what it is made of. Not made elsewhere and renamed, since its programs hold its path: `complete` says that it is whole
  local digest
  digest=$(printf '%s\n' "$("$2" -VV)" "${@:3}" "${TOOLS[@]}" | sha256sum | cut -c 1-12)
  environment=$kept/environments/$1-$digest
  mkdir -p "$kept/environments"
  (
    exec 9>>"$kept/environments/lock"
    flock 9
    if [[ -n ${HPCML_FRESH:-} ]]; then rm -rf "$environment"; fi
    if [[ ! -f $environment/complete ]]; then
      find "$kept/environments" -mindepth 1 -maxdepth 1 -type d -mtime +14 -exec rm -rf {} +
      rm -rf "$environment" && "$2" -m venv "$environment" &&
        "$environment/bin/python" -m pip --disable-pip-version-check install --quiet "${@:3}" && touch "$environment/complete" || exit 1
    fi
    touch "$environment"
  ) || return 1
  "$environment/bin/python" -m pip --disable-pip-version-check list --format freeze |
    grep -iE "^($(python tests/support/lowest.py $EXTRAS | sed 's/=.*//' | paste -sd '|'))=" | paste -sd ' '
}

within() (  # within COMMAND...: a command in $environment, with this hpcml
  export PATH=$environment/bin:$PATH VIRTUAL_ENV=$environment PYTHONPATH=$PWD
  unset PYTEST_ADDOPTS
  exec timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-20m}" "$@"
)

same_bits() (  # a short run in $environment gives the numbers that it gives in the one of all other parts
  [[ -f $scratch/digest ]] || python tests/support/short_run.py >"$scratch/digest" || exit 1
  found=$(within python tests/support/short_run.py) || exit 1
  echo "digest of a short run: $found, expected: $(cat "$scratch/digest")"
  [[ $found == "$(cat "$scratch/digest")" ]]
)

lowest_versions_tests() {  # the bits of the newest versions, which all other parts have, and some tests
  local code=0 pins
  mapfile -t pins < <(python tests/support/lowest.py $EXTRAS)
  make_environment lowest python "${pins[@]}" "${TOOLS[@]}" &&
    within mpirun -n 2 python -m hpcml check "$scratch/tried" --bits </dev/null || return 1
  within python -m pytest -p no:cacheprovider "${LOWEST_VERSIONS[@]}" "$@" || code=$?
  return $((code == 5 ? 0 : code))
}

other_python_run() {  # other_python_run PYTHON: from texts to measures with this Python and the versions that are newest this week
  local admitted
  "$1" --version
  mapfile -t admitted < <(python tests/support/lowest.py --admitted mpi)
  make_environment "newest-$(date +%G-%V)" "$1" "${admitted[@]}" && same_bits
}

versions_parts() {
  local python
  part "tests with the lowest versions" lowest_versions_tests || return 1
  for python in ${HPCML_OTHER_PYTHONS:-}; do
    part "a run with another Python: $("$python" --version)" other_python_run "$python" || return 1
  done
}

slurm_parts() { part "job scripts and pages on a private Slurm" slurm_tests "$@"; }

lab_tests() (  # the laboratory's own tests, in one process
  code=0
  timeout --foreground --kill-after=10 "${HPCML_TIMEOUT:-20m}" python -m pytest -p no:cacheprovider launch/lab/tests "$@" || code=$?
  exit $((code == 5 ? 0 : code))
)

documents() {  # by ranks that stand by; all commands as processes of their own if the pages have changed
  local flags=()
  ! has_part documents || flags=(--processes)
  python tests/support/document_commands.py "${flags[@]}"
}

single_parts() {  # what has one process
  part "types: mypy" mypy --cache-dir /dev/null hpcml &&
    part "the documentation: mkdocs build" env NO_MKDOCS_2_WARNING=1 mkdocs build --strict --quiet &&
    part "the commands of README.md and docs" documents &&
    { ! has_part lab || part "tests of the laboratory" lab_tests "$@"; }
}

parts_of_ranks() {  # 3 ranks divide nothing evenly, and one is neither the first nor the last
  local groups=("${GROUPS_OF_RANKS[@]/#/tests/mpi/}") of_two=(tests/mpi/test_{collectives,messages}.py)
  ! has_part ranks || of_two=("${groups[@]}")
  part "tests on 3 ranks" tests 3 tests/mpi --with-mpi -m mpi "$@" &&
    part "tests of groups on 2 ranks" tests 2 "${of_two[@]}" --with-mpi -m mpi "$@" &&
    part "tests of groups on 4 ranks" tests 4 "${groups[@]}" --with-mpi -m mpi "$@" &&
    { [[ -z ${HPCML_NEEDS_LOWEST_VERSIONS:-} ]] || ! has_part versions || versions_parts; }
}

compile_kernels() {  # all methods once on one rank, if no run has done so with these sources: else many ranks would wait for each kernel
  local stamp
  stamp=$NUMBA_CACHE_DIR/tested-$(find hpcml -path '*kernel*' -name '*.py' -print0 | sort -z | xargs -0 cat | cat - <(python -VV) requirements.lock | sha256sum | cut -c 1-16)
  if [[ ! -f $stamp ]]; then
    part "compiling kernels: the bits of all methods" run_ranks 1 python -m hpcml check "$scratch/compiled" --bits && touch "$stamp"
  fi
}

all_passed() {  # all parts ran and passed: note the commit, if the tests were of a commit, and all that they need was there
  local commit
  commit=$(git rev-parse HEAD 2>/dev/null) && [[ $commit == "$begun_at" && -z $(git status --porcelain) && -n ${HPCML_DATA:-} ]] || {
    echo ".ci/all-passed stays as it is: that needs a tree without changes, and real data (HPCML_DATA)"
    return 0
  }
  echo "$commit" >.ci/all-passed
  echo "wrote $commit to .ci/all-passed; commit that file alone"
}

begin_row() {  # begin_row FUNCTION PYTEST-ARGUMENTS...: its parts, in a group of their own, which Ctrl-C ends through the trap. What they
  # print is shown when they end, however they do
  local printed=$scratch/$1
  set -m
  (
    exec 3>&1
    trap 'cat "$printed" >&3' EXIT
    trap 'exit 130' INT  # once the command that runs has ended
    "$@" </dev/null >"$printed" 2>&1
  ) &
  beside+=($!)
  set +m
}

what_failed() {  # the tests that failed and why, in short: what they printed may be far above
  grep -hE '^(\[rank [0-9]+\] )?(FAILED|ERROR|E  ) |^\[rank [0-9]+\] .* end here:' \
    "$scratch"/{slurm_parts,single_parts,parts_of_ranks,spread_tests} 2>/dev/null | cut -c 1-250 | head -n 40 || true
}

begun_at=$(git rev-parse HEAD 2>/dev/null || true)
echo "== on two idle cores this takes about 15 minutes, with all parts about 30; parts besides the usual: ${HPCML_PARTS:-none}"
code=0
part "style: ruff check" ruff check --quiet || code=$?
part "style: ruff format" ruff format --check --quiet || code=$?
if ((code == 0)); then
  # more processes than cores from here on: MPICH's ranks that wait let others compute
  export MPIR_CVAR_ENABLE_HEAVY_YIELD=${MPIR_CVAR_ENABLE_HEAVY_YIELD:-1}
  begin_row slurm_parts "$@"
  begin_row single_parts "$@"
  compile_kernels || code=$?
  begin_row parts_of_ranks "$@"
  part "tests on 1 rank, and of whole jobs" spread_tests tests --ignore=tests/{slurm,mpi} "$@" | tee "$scratch/spread_tests" || code=$?
  echo "waiting for the parts that run beside these"
  for row in "${beside[@]}"; do wait "$row" || code=$?; done
  beside=()
fi
processor_seconds
printf '\n%s\n%6d s %6d CPU s  in all\n' "$(cat "$scratch/summary")" "$SECONDS" "$used"
((code == 0)) || what_failed
((code == 0)) && [[ -n $everything && $# == 0 ]] && all_passed
((code == 0)) && echo "all checks passed" || echo "FAILED: see above"
python tests/support/parts.py left "$HPCML_LEFT_OUT"
exit "$code"
