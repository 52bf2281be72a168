# shellcheck shell=bash
# Sourced by the job scripts of this folder, after their settings: the environment, the launcher, and what to do when a job ends.
# Settings: MODULES, ENVIRONMENT, LAUNCH, STAGE (see run.sbatch), and those that follow. Nothing here waits without a limit.

MAX_RESTARTS=500  # of a job that is interrupted again and again
MAX_FAILURES=${MAX_FAILURES:-3}  # fresh starts of a job whose processes died (killed, node lost, network), or of a command that was
# interrupted and begins anew: where its time was up, it would be again. Interruptions of training do not count
RESUMABLE="train tune retrain"  # commands with --resume
# A run folder that is in use: first tries in place, seconds apart, for an earlier start of this job may still be ending; then from the
# queue, seconds apart, without keeping the nodes, for another job may need hours.
IN_USE_TRIES=${IN_USE_TRIES:-5} IN_USE_PAUSE=${IN_USE_PAUSE:-60}
MAX_IN_USE=${MAX_IN_USE:-50} IN_USE_DELAY=${IN_USE_DELAY:-600}
LINGER=${LINGER:-60}  # seconds for the launcher to end after rank 0 has
CHECK_STEP=${CHECK_STEP:-30}  # seconds between two looks at whether all nodes still run their ranks

IN_USE=73  # exit code of hpcml: another job is at work in the run folder
GAVE_UP=9  # what `watch_over` ends with if it had to end the launcher

die() { printf '%s: %s\n' "${SLURM_JOB_NAME:-job}" "$*" >&2; exit 2; }
note() { printf '== %s %s\n' "$(date +%FT%T)" "$*"; }
limited() { timeout --kill-after=10 "$@"; }  # limited SECONDS COMMAND...

# Of a job array, SLURM_JOB_ID alone would mean all tasks for one of them.
TASK=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
TASK=${TASK:-${SLURM_JOB_ID:-}}

state_of_job() { limited 60 scontrol show job "$TASK" 2>/dev/null | sed -n "s/^ *$1=\([^ ]*\).*/\1/p" | head -n 1; }

set_up() {  # the environment of the job, and RANKS: the command that starts a rank in every task
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
  on_every_node 120 find /dev/shm -maxdepth 1 -user "$UID" -name 'mpich_*' -mmin +1 -delete >/dev/null 2>&1 || true
}

on_every_node() {  # on_every_node SECONDS COMMAND...
  limited "$1" srun --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --mpi=none "${@:2}"
}

choose_launcher() {  # sets RANKS from LAUNCH; auto: srun in the way that mpi4py's MPI library understands, else mpirun
  local vendor list way=$LAUNCH
  if [[ $way == auto ]]; then
    vendor=$(limited 300 "$PYTHON" -c 'import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.get_vendor()[0])') ||
      die "mpi4py finds no MPI library in $ENVIRONMENT; see docs/do/slurm.md"
    list=$(limited 60 srun --mpi=list 2>&1)
    case $vendor in
      'Open MPI') [[ $list == *pmix* ]] && way="srun --mpi=pmix" || way=mpirun ;;
      *) [[ $list == *pmi2* ]] && way="srun --mpi=pmi2" || way=mpirun ;;
    esac
  fi
  read -ra RANKS <<<"$way"
  # srun: tasks have the cores that were asked for; a rank that dies takes the others with it
  [[ ${RANKS[0]} != srun ]] || RANKS+=(--cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" --kill-on-bad-exit=1)
  [[ ${RANKS[0]} != mpirun ]] || RANKS+=(-n "$SLURM_NTASKS")
  # a rank whose slurmstepd or mpirun is killed would hear of no signal any more, nor anybody of its end: it stops at once
  ! setpriv --pdeathsig TERM true 2>/dev/null || RANKS+=(setpriv --pdeathsig TERM)
}

stage() {  # the environment on the local disk of every node, so that thousands of ranks do not import from a shared file system
  # nobody can have made a folder of that name before: what runs from there shall be ours
  PACKED=$PWD/.hpcml-environment-$SLURM_JOB_ID.tar STAGED=${TMPDIR:-/tmp}/hpcml-$SLURM_JOB_ID-$RANDOM$RANDOM$RANDOM
  trap 'rm -f "$PACKED"; on_every_node 120 rm -rf "$STAGED" "$STAGED.tar"' EXIT
  note "copying $ENVIRONMENT to $STAGED on every node"
  limited 1800 tar -cf "$PACKED" -C "$ENVIRONMENT" . && limited 1800 sbcast --force "$PACKED" "$STAGED.tar" &&
    on_every_node 1800 bash -c 'mkdir -m 700 "$0" && tar -xf "$0.tar" -C "$0" && rm "$0.tar"' "$STAGED" ||
    die "copying the environment failed; set STAGE=no"
  rm -f "$PACKED"
  PYTHON=$STAGED/bin/python
}

set_command() {  # set_command COMMAND ARGUMENTS...: sets ARGUMENTS, of a job array to those of this task; HOW it goes on
  local argument words
  (($# > 0)) || die "run what? sbatch slurm/run.sbatch COMMAND ARGUMENTS..., as in: train probe docs.h5 -o runs/big"
  ARGUMENTS=() HOW="to begin anew"
  for argument in "$@"; do
    if [[ -z ${SLURM_ARRAY_TASK_ID:-} ]]; then
      ARGUMENTS+=("$argument")
    elif [[ $argument == @* ]]; then
      [[ -f ${argument#@} ]] || die "${argument#@}: there is no such file of options"
      read -ra words <<<"$(sed -n "${SLURM_ARRAY_TASK_ID}p" "${argument#@}")"
      ((${#words[@]} > 0)) || die "${argument#@} has no line $SLURM_ARRAY_TASK_ID, or it is empty; it has $(wc -l <"${argument#@}") lines"
      ARGUMENTS+=("${words[@]}")
    else
      ARGUMENTS+=("${argument//%t/$SLURM_ARRAY_TASK_ID}")
    fi
  done
  if [[ " $RESUMABLE " == *" ${ARGUMENTS[0]} "* ]]; then
    HOW="to resume"
    [[ " ${ARGUMENTS[*]} " == *" --resume "* ]] || ARGUMENTS+=(--resume)
  else
    # the first start of a job makes this file and replaces nothing; a later start may replace outputs that are not older than it
    MARKER=$PWD/.hpcml-outputs-$SLURM_JOB_ID
    if [[ ${SLURM_RESTART_COUNT:-0} == 0 ]]; then : >"$MARKER"; else export HPCML_OUTPUTS=$MARKER; fi
  fi
}

judge() {  # judges the model of ARGUMENTS, if they train one, on the split test of its data; the measures lie beside the model
  local output="" data="" previous="" argument code=0
  [[ ${ARGUMENTS[0]} == @(train|tune|retrain) ]] || return 0
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
  limited 300 "$PYTHON" - "$data" <<<'import h5py, sys; sys.exit(3 * ("splits/test" not in h5py.File(sys.argv[1], locking=False)))' ||
    code=$?
  ((code != 3)) || { note "not judged: $data has no split test"; return 0; }
  run evaluate "$output/model.h5" "$data" --json "$output/measures.json" --force
}

run() {  # run HPCML-ARGUMENTS...: on all ranks of the job. Signals to this script go to the ranks, which write a checkpoint
  local pid watcher code=0 watched=0
  [[ -z ${SIGNALLED:-} ]] || return 75
  rm -f .hpcml-exit-"$SLURM_JOB_ID"-*  # an earlier start may have left one
  # rank 0's own code: srun may kill ranks that are slow to end, and say so
  export HPCML_EXIT_FILE=$PWD/.hpcml-exit-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
  note "$(printf '%q ' "${RANKS[@]}" hpcml "$@")"
  "${RANKS[@]}" "$PYTHON" -m hpcml "$@" &
  pid=$!
  watch_over "$pid" &
  watcher=$!
  trap 'SIGNALLED=yes; kill -USR1 '"$pid"' 2>/dev/null' USR1 TERM
  [[ -z ${SIGNALLED:-} ]] || kill -USR1 "$pid" 2>/dev/null  # it came before this trap
  wait "$pid" || code=$?
  while kill -0 "$pid" 2>/dev/null; do  # a signal ended the wait, not the ranks
    code=0
    wait "$pid" || code=$?
  done
  trap 'SIGNALLED=yes' USR1 TERM
  kill -HUP "$watcher" 2>/dev/null
  wait "$watcher" 2>/dev/null || watched=$?
  if [[ -s $HPCML_EXIT_FILE ]]; then
    code=$(<"$HPCML_EXIT_FILE")
  elif ((watched == GAVE_UP)); then
    code=1  # a lost process, whatever the launcher said when it was ended
  fi
  rm -f "$HPCML_EXIT_FILE"
  return "$code"
}

run_until_free() {  # runs ARGUMENTS, again for a while if another job is at work in the run folder
  local try code
  for ((try = 1; ; try++)); do
    code=0
    run "${ARGUMENTS[@]}" || code=$?
    ((code == IN_USE && try < IN_USE_TRIES)) || return "$code"
    note "the run folder is in use; try $((try + 1)) of $IN_USE_TRIES in $IN_USE_PAUSE s"
    pause "$IN_USE_PAUSE"
  done
}

pause() {  # pause SECONDS: or less, if a signal comes
  local pid
  sleep "$1" &
  pid=$!
  wait "$pid"
  kill "$pid" 2>/dev/null
}

watch_over() {  # watch_over PID: ends a launcher that would wait for ever: for a rank whose slurmstepd was killed
  local pid=$1 next=1 checked=$SECONDS most=0 missing=0 ended="" here
  trap '' USR1 TERM  # they are for the ranks
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    if [[ -s $HPCML_EXIT_FILE ]]; then
      ended=${ended:-$SECONDS}
      ((SECONDS - ended < LINGER)) && continue
      give_up "$pid" "rank 0 has ended, and the launcher still waits $LINGER s later"
      return "$GAVE_UP"
    fi
    ((SECONDS - checked >= next)) || continue
    # sstat asks every node of every step; of a step that lost a slurmstepd it says nothing, or less
    here=$(limited 60 sstat -j "$SLURM_JOB_ID" --allsteps --pidformat --noheader --parsable2 2>/dev/null)
    checked=$SECONDS next=$((2 * next < CHECK_STEP ? 2 * next : CHECK_STEP))
    [[ $here == *"$SLURM_JOB_ID.batch|"* ]] || continue  # no answer, or sstat does not work here
    here=$(grep -cE "^$SLURM_JOB_ID\.[0-9]+\|" <<<"$here")
    ((here >= most)) && most=$here missing=0 && continue
    ((++missing >= 3)) || continue
    kill -0 "$pid" 2>/dev/null || break
    [[ ! -s $HPCML_EXIT_FILE ]] || continue
    give_up "$pid" "of the $most nodes that had started ranks, Slurm finds them on $here: a slurmstepd was killed, or a node is lost"
    return "$GAVE_UP"
  done
}

give_up() {  # give_up PID WHY: ends a launcher, and the ranks that nobody else can end
  trap '' HUP  # it is seen through
  note "$2; it is ended now"
  kill -TERM "$1"
  for _ in {1..10}; do kill -0 "$1" 2>/dev/null && sleep 1; done
  kill -KILL "$1" 2>/dev/null
  # shellcheck disable=SC2016  # of the processes there: those of this job's earlier steps
  on_every_node 60 --overlap bash -c '
    for folder in /proc/[0-9]*; do
      variables=$(tr "\0" "\n" <"$folder/environ") || continue
      grep -qx "SLURM_JOB_ID=$SLURM_JOB_ID" <<<"$variables" && grep -q "^SLURM_STEP_ID=" <<<"$variables" || continue
      grep -qx "SLURM_STEP_ID=$SLURM_STEP_ID" <<<"$variables" || kill -KILL "${folder#/proc/}"
    done' >/dev/null 2>&1 || note "not every node could be asked to end the ranks that are left on it"
}

again() {  # again WHY [SECONDS]: queue this job again, for so much later; Slurm then ends this script. Not if Slurm is ending it: it was
  # cancelled, or will be queued
  local answer
  if [[ $(state_of_job JobState) != RUNNING ]]; then
    note "$1; Slurm ends the job, and queues it again unless it was cancelled (then submit the same again $HOW)"
    QUEUED=yes
    return
  fi
  note "$1; queued again, $HOW"
  if answer=$(limited 60 scontrol requeue "$TASK" 2>&1); then
    [[ -z ${2:-} ]] || limited 60 scontrol update "JobId=$TASK" "StartTime=now+$2"
    sleep 60
  else
    note "this cluster does not queue it again ($answer); submit the same again $HOW"
  fi
}

count() {  # count WHAT: how often this job has ended so, this time included. Kept in the job's comment, which a job queued again keeps
  local all n=0
  all=$(state_of_job Comment)
  [[ $all == hpcml,* ]] || all=hpcml
  [[ ! $all =~ ,$1=([0-9]+) ]] || n=${BASH_REMATCH[1]}
  limited 60 scontrol update "JobId=$TASK" "Comment=${all/,$1=$n/},$1=$((n + 1))"
  echo "$((n + 1))"
}

lost_its_slurmstepd() { [[ $(sed -n 's/^PPid:\s*//p' /proc/$$/status) != "$PPID" ]]; }

end() {  # end CODE: the job ends with it; but one that was interrupted, or lost its processes, is queued again and will resume
  local code=$1 times
  [[ $code == [02] || -z ${SIGNALLED:-} ]] || code=75  # it came before the ranks could take it
  if lost_its_slurmstepd; then  # and could not be started again on this node, where Slurm finds its old files
    note "exit code $code, but Slurm cannot hear it, for the slurmstepd of this script was killed: the job is cancelled;" \
      "$( ((code == 0)) && echo "its work is done" || echo "submit the same again $HOW")"
    rm -f "${MARKER:-}"
    limited 60 scancel "$TASK"
    exit "$code"
  fi
  case $code in
    0) note "done" ;;
    2) note "not queued again: the options or the data must be mended first (see above)" ;;
    75)
      if [[ $HOW != "to resume" && $(state_of_job JobState) == RUNNING ]]; then  # not preempted
        fail interrupted "if its time was up, give it more (sbatch --time)"
      elif ((${SLURM_RESTART_COUNT:-0} >= MAX_RESTARTS)); then
        note "interrupted, after $SLURM_RESTART_COUNT restarts: given up; submit the same again $HOW"
      else
        again interrupted
      fi
      ;;
    "$IN_USE")
      times=$(count in-use)
      if ((times > MAX_IN_USE)); then
        note "the run folder is in use, for the ${times}th time: given up; see who uses it (above), then submit the same again"
      else
        again "the run folder is in use, time $times of at most $MAX_IN_USE" "$IN_USE_DELAY"
      fi
      ;;
    *) fail "exit code $code" "submit the same again $HOW" ;;
  esac
  [[ -n ${QUEUED:-} ]] || rm -f "${MARKER:-}"
  exit "$code"
}

fail() {  # fail WHAT ADVICE: queue the job again, unless it has failed too often
  local times
  times=$(count failures)
  if ((times > MAX_FAILURES)); then
    note "$1, for the ${times}th time: given up; $2"
  else
    again "$1, failure $times of at most $MAX_FAILURES"
  fi
}
