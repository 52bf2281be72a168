#!/usr/bin/env bash
# A private Slurm on this machine, to try jobs without a cluster: a controller and several nodes (slurmd processes on ports of the
# loopback address). Its configuration, keys and logs are in one folder, and a Slurm of the system is not changed.
#
#   launch/slurm-here.sh up [NODES]           start it (default: 4 nodes)
#   eval "$(launch/slurm-here.sh env)"        connect sbatch, srun, squeue, … of this shell to it
#   launch/slurm-here.sh with COMMAND…        run one command in it; if it is not up, it is up for this command only
#   launch/slurm-here.sh can                  exit code 0 if it can run here; else 3 and the reason
#   launch/slurm-here.sh down                 stop it
#
# Partitions: batch (the default), urgent (its jobs preempt those of batch, which are requeued). It uses the installed Slurm and munge,
# else Debian's packages, which it fetches with apt into ~/.cache/hpcml/slurm; nothing is installed.
# HPCML_SLURM: its folder; default /tmp/hpcml-slurm-USERID. HPCML_SLURM_CPUS: the number of cores of each node; default 4.
set -euo pipefail

STATE=${HPCML_SLURM:-/tmp/hpcml-slurm-$UID}
SOFTWARE=${XDG_CACHE_HOME:-${HOME:-$STATE}/.cache}/hpcml/slurm
CONF=$STATE/slurm.conf
PACKAGES=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge)

say() { printf 'slurm-here: %s\n' "$*" >&2; }
cannot() { say "Slurm cannot run here: $*"; exit 3; }

find_software() {  # sets BIN, SBIN, LIB to the installed or to the fetched ones; fails if there are none
  local stepd
  if stepd=$(PATH=$PATH:/usr/sbin command -v slurmstepd) && PATH=$PATH:/usr/sbin command -v slurmctld munged sbatch >/dev/null; then
    SUFFIX="" BIN=$(dirname "$(command -v sbatch)") SBIN=$(dirname "$stepd") LIB=""
  elif [[ -f $SOFTWARE/complete ]]; then
    SUFFIX=-wlm BIN=$SOFTWARE/usr/bin SBIN=$SOFTWARE/usr/sbin
    LIB=$(dirname "$(find "$SOFTWARE/usr/lib" -name 'libmunge.so.*' | head -n 1)")
  else
    return 1
  fi
  PLUGINS=$(dirname "$(find "${LIB:-/usr/lib}" "${LIB:-/usr/lib64}" -name auth_munge.so 2>/dev/null | head -n 1)")
}

can() {  # ends with exit code 3 and a reason where Slurm cannot run
  [[ $(uname -s) == Linux ]] || cannot "this is not Linux"
  getent hosts "$(hostname)" >/dev/null || cannot "the name of this machine, $(hostname), has no address (see /etc/hosts)"
  find_software && return
  command -v apt-get dpkg >/dev/null || cannot "slurmctld, slurmd or munged is missing, and there is no apt"
}

fetch() {  # unpacks Debian's packages; apt's own folders do not change
  local part=$SOFTWARE.part apt
  mkdir -p "${SOFTWARE%/*}" && exec 8>>"$SOFTWARE.lock" && flock 8  # only the first of several processes fetches them
  if [[ ! -f $SOFTWARE/complete ]]; then
    apt=(-qq -o "Dir::State=$part/apt" -o Dir::State::status=/var/lib/dpkg/status -o "Dir::Cache=$part/cache"
      -o Debug::NoLocking=1 -o "APT::Sandbox::User=$(id -un)" -o Acquire::Retries=3)
    rm -rf "$part" "$SOFTWARE" && mkdir -m 700 "$part" && mkdir -p "$part"/apt/lists/partial "$part"/cache/archives/partial
    { apt-get "${apt[@]}" update && apt-get "${apt[@]}" install --yes --no-install-recommends --download-only "${PACKAGES[@]}"; } \
      >"$STATE/apt.log" 2>&1 </dev/null || cannot "apt cannot fetch ${PACKAGES[*]}: $(tail -n 1 "$STATE/apt.log")"
    for deb in "$part"/cache/archives/*.deb; do dpkg -x "$deb" "$part"; done
    rm -rf "$part"/{apt,cache} && touch "$part/complete" && mv "$part" "$SOFTWARE"
  fi
  exec 8>&-
}

is_ours() { [[ -d $STATE && ! -L $STATE && -O $STATE && -f $STATE/.slurm-here ]]; }

own_folder() {  # creates STATE for this user only: it has keys, and `down` removes its files
  [[ $STATE =~ ^/[A-Za-z0-9._/-]+$ && ${#STATE} -le 90 ]] ||
    { say "HPCML_SLURM=$STATE: expected an absolute path of at most 90 letters, digits and ._/-"; exit 2; }
  [[ -d ${STATE%/*} ]] || { say "the folder ${STATE%/*} does not exist; create it"; exit 2; }
  is_ours || [[ ! -e $STATE && ! -L $STATE ]] || rmdir "$STATE" 2>/dev/null ||
    { say "$STATE has other files or another owner; set HPCML_SLURM to a new folder"; exit 2; }
  is_ours || { mkdir -m 700 "$STATE" && touch "$STATE/.slurm-here"; }
}

daemon() {  # daemon PIDFILE: prints the process id in it, if that is a process of this Slurm
  local pid
  [[ -f $1 ]] && pid=$(<"$1") && [[ $pid =~ ^[0-9]+$ ]] && tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF "$STATE" && echo "$pid"
}

free_ports() {  # free_ports COUNT: prints the first of COUNT free ports of the loopback address
  local first port
  for first in $(seq 17000 50 30000); do
    for ((port = first; port < first + $1; port++)); do
      if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then continue 2; fi
    done
    echo "$first" && return
  done
  cannot "no free ports"
}

configure() {  # configure NODES
  local port name user memory
  port=$(free_ports $(($1 + 1))) name=$(hostname) user=$(id -un)
  memory=$(awk '/MemAvailable/ {print int($2 / 1024)}' /proc/meminfo)
  cat >"$CONF" <<END
ClusterName=here
SlurmctldHost=$name(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
SlurmctldPort=$port
FirstJobId=$((1 + RANDOM * 32 + RANDOM % 32))
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$STATE/munge.sock,cred_expire=10
PluginDir=$PLUGINS
StateSaveLocation=$STATE/state
SlurmdSpoolDir=$STATE/spool/%n
SlurmctldPidFile=$STATE/slurmctld.pid
SlurmdPidFile=$STATE/slurmd.%n.pid
SlurmctldLogFile=$STATE/slurmctld.log
SlurmdLogFile=$STATE/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MpiDefault=none
JobRequeue=0
ReturnToService=2
KillWait=2
SlurmdTimeout=120
MessageTimeout=30
BatchStartTimeout=120
UnkillableStepTimeout=180
NodeName=node[1-$1] NodeHostname=$name NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + $1))] CPUs=$CPUS SocketsPerBoard=1 CoresPerSocket=$CPUS ThreadsPerCore=1 RealMemory=$memory
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=20 OverSubscribe=NO
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF OverSubscribe=NO
END
}

print_env() {  # prints the variables of a shell that uses it
  # the nodes have more cores than this machine: waiting ranks of MPICH leave the cores to others
  printf 'export SLURM_CONF=%q PATH=%q MPIR_CVAR_ENABLE_HEAVY_YIELD=1' "$CONF" "$BIN:$SBIN:$PATH"
  [[ -z $LIB ]] || printf ' LD_LIBRARY_PATH=%q' "$LIB:$PLUGINS${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  printf '\n'
}

running() { is_ours && daemon "$STATE/slurmctld.pid" >/dev/null; }

up() {  # up NODES
  local node nodes=$1
  [[ $nodes =~ ^[1-9][0-9]?$ ]] || { say "number of nodes $nodes: expected 1 to 99"; exit 2; }
  [[ $CPUS =~ ^[1-9][0-9]*$ ]] || { say "HPCML_SLURM_CPUS=$CPUS: expected a whole number above 0"; exit 2; }
  can && own_folder
  find_software || { fetch && find_software; }
  ! running || { say "it is up; stop it with: $0 down"; exit 2; }
  trap 'code=$?; ((code == 0)) || down; exit "$code"' EXIT
  mkdir -p "$STATE/state"
  for node in $(seq "$nodes"); do mkdir -p "$STATE/spool/node$node"; done
  configure "$nodes"
  (umask 077 && head -c 256 /dev/urandom >"$STATE/munge.key")
  eval "$(print_env)"
  munged --force --key-file="$STATE/munge.key" --socket="$STATE/munge.sock" --pid-file="$STATE/munged.pid" \
    --log-file="$STATE/munged.log" --seed-file="$STATE/munged.seed" 2>/dev/null
  "slurmctld$SUFFIX" -f "$CONF" 2>>"$STATE/start.log"
  for node in $(seq "$nodes"); do "slurmd$SUFFIX" -f "$CONF" -N "node$node" -d "$SBIN/slurmstepd$SUFFIX" 2>>"$STATE/start.log"; done
  for _ in $(seq 600); do
    [[ $(sinfo -h -N -p batch -t idle 2>/dev/null | wc -l) -lt $nodes ]] || return 0
    sleep 0.2
  done
  say "the nodes did not come up in 120 s: $(cat "$STATE"/start.log "$STATE"/slurmctld.log | tail -n 5)"
  exit 1
}

job_processes() {
  grep -lszxF "SLURM_CONF=$CONF" /proc/[0-9]*/environ | xargs -r grep -lsz '^SLURM_JOB_ID=' | tr -dc '0-9\n'
}

down() {  # ends its jobs and daemons and removes its files
  local file pid pids=()
  is_ours || return 0
  if running && find_software; then
    (eval "$(print_env)" && scancel --full -u "$(id -un)" && for _ in $(seq 25); do [[ -n $(squeue -h) ]] || break; sleep 0.2; done) 2>/dev/null || true
  fi
  for pid in $(job_processes); do kill -9 "$pid" 2>/dev/null || true; done
  for file in "$STATE"/{slurmd.*,slurmctld,munged}.pid; do
    ! pid=$(daemon "$file") || pids+=("$pid")
  done
  for pid in ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null || true; done
  for pid in ${pids[@]+"${pids[@]}"}; do
    for _ in $(seq 50); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
    ! kill -0 "$pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null || true
  done
  find "$STATE" -mindepth 1 -maxdepth 1 ! -name .slurm-here -exec rm -rf {} +
}

CPUS=${HPCML_SLURM_CPUS:-4}
case ${1:-} in
  up) up "${2:-4}" && say "up; use it with: eval \"\$($0 env)\"" ;;
  down) down ;;
  can) can ;;
  env)
    find_software && running || { say "it is not up; start it with: $0 up"; exit 2; }
    print_env
    ;;
  with)
    (($# > 1)) || { say "no command; expected: $0 with COMMAND…"; exit 2; }
    shift
    code=0
    if ! { running && find_software; }; then
      up 4
      trap down EXIT
    fi
    eval "$(print_env)"
    "$@" || code=$?
    exit "$code"
    ;;
  *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2 && exit 2 ;;
esac
