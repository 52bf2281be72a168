# shellcheck shell=bash
# Sourced by the job scripts of this folder, after their settings: the environment, the launcher, and what to do when a job ends.
# Settings: MODULES, ENVIRONMENT, LAUNCH, STAGE (see train.sbatch).

MAX_RESTARTS=500  # of a job that is interrupted again and again
MAX_FAILURES=3  # fresh starts of a job whose processes died (killed, node lost, network); interruptions do not count

die() { printf '%s: %s\n' "${SLURM_JOB_NAME:-job}" "$*" >&2; exit 2; }
note() { printf '== %s %s\n' "$(date +%FT%T)" "$*"; }

# Of a job array, SLURM_JOB_ID alone would mean all tasks for one of them.
TASK=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
TASK=${TASK:-${SLURM_JOB_ID:-}}

state_of_job() { scontrol show job "$TASK" 2>/dev/null | sed -n "s/^ *$1=\([^ ]*\).*/\1/p" | head -n 1; }

set_up() {  # the environment of the job, thread caps, and RANKS: the command that starts a rank in every task
  trap 'SIGNALLED=yes' USR1 TERM
  [[ -n ${SLURM_JOB_ID:-} ]] || die "this is a job script: submit it with sbatch, from the project's folder"
  [[ -f launch/env.sh ]] || die "submit this from the project's folder (there is no launch/env.sh in $PWD)"
  # shellcheck disable=SC2086  # a list of modules
  [[ -z $MODULES ]] || module load $MODULES || die "module load $MODULES failed; change MODULES at the top of the job script"
  [[ -x $ENVIRONMENT/bin/python ]] || die "$ENVIRONMENT has no bin/python; set ENVIRONMENT to the virtual environment with hpcml in it"
  export PATH=$ENVIRONMENT/bin:$PATH
  source launch/env.sh
  PYTHON=$ENVIRONMENT/bin/python
  [[ $STAGE == no ]] || stage
  choose_launcher
  [[ ${SLURM_RESTART_COUNT:-0} == 0 ]] || clean_shared_memory
}

clean_shared_memory() {  # MPICH names its shared memory after the job's step, and a job that is queued again has the same steps: what
  # a start that was killed while MPI began has left on a node would be taken for the new start's
  on_every_node find /dev/shm -maxdepth 1 -user "$UID" -name 'mpich_*' -mmin +1 -delete >/dev/null 2>&1 || true
}

on_every_node() { srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --mpi=none "$@"; }

choose_launcher() {  # sets RANKS from LAUNCH; auto: srun in the way that mpi4py's MPI library understands, else mpirun
  local vendor list way=$LAUNCH
  if [[ $way == auto ]]; then
    vendor=$("$PYTHON" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.get_vendor()[0])') ||
      die "mpi4py finds no MPI library in $ENVIRONMENT; see 'On a cluster' in README.md"
    list=$(srun --mpi=list 2>&1)
    case $vendor in
      'Open MPI') [[ $list == *pmix* ]] && way="srun --mpi=pmix" || way=mpirun ;;
      *) [[ $list == *pmi2* ]] && way="srun --mpi=pmi2" || way=mpirun ;;
    esac
  fi
  read -ra RANKS <<<"$way"
  # srun: tasks have the cores that were asked for; a rank that dies takes the others with it
  [[ ${RANKS[0]} != srun ]] || RANKS+=(--cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1)
  [[ ${RANKS[0]} != mpirun ]] || RANKS+=(-n "$SLURM_NTASKS")
}

stage() {  # the environment on the local disk of every node, so that thousands of ranks do not import from a shared file system
  # nobody can have made a folder of that name before: what runs from there shall be ours
  PACKED=$PWD/.hpcml-environment-$SLURM_JOB_ID.tar STAGED=${TMPDIR:-/tmp}/hpcml-$SLURM_JOB_ID-$RANDOM$RANDOM$RANDOM
  trap 'rm -f "$PACKED"; on_every_node rm -rf "$STAGED" "$STAGED.tar"' EXIT
  note "copying $ENVIRONMENT to $STAGED on every node"
  tar -cf "$PACKED" -C "$ENVIRONMENT" . && sbcast --force "$PACKED" "$STAGED.tar" &&
    on_every_node bash -c 'mkdir -m 700 "$0" && tar -xf "$0.tar" -C "$0" && rm "$0.tar"' "$STAGED" ||
    die "copying the environment failed; set STAGE=no"
  rm -f "$PACKED"
  PYTHON=$STAGED/bin/python
}

task_arguments() {  # task_arguments ARGUMENTS...: sets ARGUMENTS to those of this task of a job array
  local argument words
  [[ -n ${SLURM_ARRAY_TASK_ID:-} ]] || die "this is a job array: give sbatch --array=1-N"
  ARGUMENTS=()
  for argument in "$@"; do
    if [[ $argument == @* ]]; then
      [[ -f ${argument#@} ]] || die "${argument#@}: there is no such file of options"
      read -ra words <<<"$(sed -n "${SLURM_ARRAY_TASK_ID}p" "${argument#@}")"
      ((${#words[@]} > 0)) || die "${argument#@} has no line $SLURM_ARRAY_TASK_ID, or it is empty; it has $(wc -l <"${argument#@}") lines"
      ARGUMENTS+=("${words[@]}")
    else
      ARGUMENTS+=("${argument//%t/$SLURM_ARRAY_TASK_ID}")
    fi
  done
}

judge() {  # judges the model of ARGUMENTS on the split test of its data; the measures lie beside the model
  local output="" data="" previous="" argument code=0
  for argument in "${ARGUMENTS[@]}"; do
    case $previous:$argument in
      -o:* | --output:*) output=$argument ;;
      *:--output=* | *:-o=*) output=${argument#*=} ;;
      --initial-model:*) ;;
      *.h5) data=${data:-$argument} ;;
    esac
    previous=$argument
  done
  [[ -n $output && -n $data ]] || { note "not judged: name the data and --output on the command line"; return 0; }
  "$PYTHON" - "$data" <<<'import h5py, sys; sys.exit(3 * ("splits/test" not in h5py.File(sys.argv[1], locking=False)))' || code=$?
  ((code != 3)) || { note "not judged: $data has no split test"; return 0; }
  run evaluate "$output/model.h5" "$data" --json "$output/measures.json" --force
}

run() {  # run HPCML-ARGUMENTS...: on all ranks of the job. Signals to this script go to the ranks, which write a checkpoint
  local pid code=0
  [[ -z ${SIGNALLED:-} ]] || return 75
  export HPCML_EXIT_FILE=$PWD/.hpcml-exit-$SLURM_JOB_ID  # rank 0's own code: srun may kill ranks that are slow to end, and say so
  rm -f "$HPCML_EXIT_FILE"
  note "$(printf '%q ' "${RANKS[@]}" hpcml "$@")"
  "${RANKS[@]}" "$PYTHON" -m hpcml "$@" &
  pid=$!
  trap 'SIGNALLED=yes; kill -USR1 '"$pid"' 2>/dev/null' USR1 TERM
  wait "$pid" || code=$?
  while kill -0 "$pid" 2>/dev/null; do  # a signal ended the wait, not the ranks
    code=0
    wait "$pid" || code=$?
  done
  trap 'SIGNALLED=yes' USR1 TERM
  [[ ! -s $HPCML_EXIT_FILE ]] || code=$(<"$HPCML_EXIT_FILE")
  rm -f "$HPCML_EXIT_FILE"
  return "$code"
}

again() {  # again WHY: queue this job again; Slurm then ends this script. Not if Slurm is ending it: it was cancelled, or will be queued
  local answer
  if [[ $(state_of_job JobState) != RUNNING ]]; then
    note "$1; Slurm ends the job, and queues it again unless it was cancelled (then submit the same again to resume)"
    return
  fi
  note "$1; queued again, to resume"
  if answer=$(scontrol requeue "$TASK" 2>&1); then
    sleep 60
  else
    note "this cluster does not queue it again ($answer); submit the same again to resume"
  fi
}

end() {  # end CODE: the job ends with it; but one that was interrupted, or lost its processes, is queued again and will resume
  local code=$1 failures
  [[ $code == [02] || -z ${SIGNALLED:-} ]] || code=75  # it came before the ranks could take it
  case $code in
    0) note "done" ;;
    2) note "not queued again: the options or the data must be mended first (see above)" ;;
    75)
      if ((${SLURM_RESTART_COUNT:-0} >= MAX_RESTARTS)); then
        note "interrupted, after $SLURM_RESTART_COUNT restarts: given up; submit the same again to resume"
      else
        again interrupted
      fi
      ;;
    *)
      failures=$(state_of_job Comment)
      [[ $failures =~ ^hpcml-failures-([0-9]+)$ ]] && failures=$((BASH_REMATCH[1] + 1)) || failures=1
      if ((failures > MAX_FAILURES)); then
        note "exit code $code, for the ${failures}th time: given up; submit the same again to resume"
      else
        scontrol update "JobId=$TASK" "Comment=hpcml-failures-$failures"
        again "exit code $code, failure $failures of at most $MAX_FAILURES"
      fi
      ;;
  esac
  exit "$code"
}
