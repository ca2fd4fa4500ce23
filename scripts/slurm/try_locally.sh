#!/usr/bin/env bash
# Runs the batch scripts on a real Slurm of one node, which it starts here and ends again: jobs are signalled, save, are
# requeued, resume and finish; others fail or are cancelled and are not requeued.
#   scripts/slurm/try_locally.sh [PROGRAM]
#     PROGRAM      the tessera-train to run; build/bin/tessera-train unless given
# Installs munge and Slurm if they are missing (scripts/setup.sh --slurm). Files, socket, key and ports are its own, so it
# runs beside another Slurm and beside itself. Exit code 77: no Slurm can run here.
set -euo pipefail

case ${1:-} in
  '') program='' ;;
  -h|--help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
  *) program=$(realpath -m "$1") ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
program=${program:-$PWD/build/bin/tessera-train}
[ -x "$program" ] || { echo "try_locally: no program $program; build it with scripts/build.sh" >&2; exit 2; }

cannot() { echo "try_locally: $*" >&2; exit 77; }
[ "$(id -u)" -eq 0 ] || cannot "needs root: slurmd starts jobs for users"
scripts/setup.sh --slurm || cannot "Slurm cannot be installed (see above)"

unset "${!SLURM@}" "${!SBATCH@}" "${!SRUN@}" "${!OMPI_@}" "${!PMIX@}" "${!PMI_@}" "${!TESSERA_@}" OMP_NUM_THREADS
folder=$(mktemp -d "${TMPDIR:-/tmp}/tessera-slurm-$$.XXXXXX")
chmod 755 "$folder"  # munged asks for it; its key is its own
mkdir "$folder/state" "$folder/spool" "$folder/tmp"
export SLURM_CONF=$folder/slurm.conf TMPDIR=$folder/tmp TESSERA_TRAIN=$program
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_vader_backing_directory=$folder/tmp
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}  # of a build with checks: Open MPI keeps memory until it ends

# remove FOLDER: ends the Slurm of the folder and its jobs: their environment has its name. All that they keep is in it,
# so none has to end in order. (grep must not find itself.)
remove() {
  local left
  while mapfile -t left < <(env -i grep -lsF "$1/" /proc/[0-9]*/environ) && [ ${#left[@]} -gt 0 ]; do
    left=("${left[@]#/proc/}")
    kill -KILL "${left[@]%/environ}" 2>/dev/null || true
    sleep 0.1
  done
  rm -rf "$1"
}
clean_up() {
  local code=$?
  trap '' INT TERM HUP
  if [ $code -ne 0 ] && [ $code -ne 77 ]; then tail -n 40 "$folder"/*.log >&2 || true; fi
  remove "$folder"
  exit $code
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP
# What a killed run of this script left.
for left in "${folder%/*}"/tessera-slurm-*; do
  owner=${left##*/tessera-slurm-}
  [ -d "/proc/${owner%.*}" ] || remove "$left"
done

fail() { echo "try_locally: $*" >&2; exit 1; }
say() { printf 'try_locally: %3d s: %s\n' $SECONDS "$*"; }
# wait_for SECONDS COMMAND...: until the command succeeds.
wait_for() {
  local end=$((SECONDS + $1)); shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

start_daemon() {  # name, command
  local name=$1; shift
  setsid "$@" >"$folder/$name.log" 2>&1 &  # Ctrl-C is for this script
  disown
}
node_is_idle() { [ "$(sinfo -h -o %T 2>/dev/null)" = idle ]; }
start_slurm() {
  local ports node
  ports=($(python3 -c 'import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))'))
  node=$(hostname -s)
  cat >"$SLURM_CONF" <<CONF
ClusterName=tessera
SlurmctldHost=localhost
SlurmctldPort=${ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
TmpFS=$folder/tmp
MailProg=/bin/true
MessageTimeout=100
TCPTimeout=30
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=pmix
GresTypes=gpu
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
NodeName=$node NodeAddr=127.0.0.1 Port=${ports[1]} CPUs=8 Gres=gpu:2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  touch "$folder/gpu0" "$folder/gpu1"  # as the devices of a node with GPUs
  echo "NodeName=$node Name=gpu File=$folder/gpu[0-1]" >"$folder/gres.conf"
  (umask 077; head -c 128 /dev/urandom >"$folder/munge.key")
  start_daemon munged munged --foreground --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
      --pid-file="$folder/munged.pid" --seed-file="$folder/munge.seed" --num-threads=2
  wait_for 20 test -S "$folder/munge.socket" || cannot "munged does not start: $(tail -n 3 "$folder/munged.log")"
  start_daemon slurmctld slurmctld -D -i
  start_daemon slurmd slurmd -D -N "$node"
  wait_for 60 node_is_idle || cannot "Slurm does not start:
$(tail -n 5 "$folder/slurmctld.log" "$folder/slurmd.log")"
}

cat >"$folder/model.json" <<'MODEL'
{"model_type": "qwen3_moe", "vocab_size": 257, "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
 "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "moe_intermediate_size": 20, "num_experts": 5,
 "num_experts_per_tok": 2, "norm_topk_prob": true, "max_position_embeddings": 64}
MODEL
cp README.md "$folder/text"
settings=(--model.config_path "$folder/model.json" --data.train_path "$folder/text" --data.max_seq_len 32
          --train.global_batch_size 4 --train.micro_batch_size 1 --train.num_train_epochs 100000)
by_two=(--train.accelerator.extra_parallel_names ep --train.accelerator.extra_parallel_sizes 2)
# The settings of a job: its last step and, if given, the checkpoint that its first start begins with.
settings_of() {  # name, step [, checkpoint]
  local load=''
  [ -z "${3:-}" ] || load=", \"checkpoint\": {\"load_path\": \"$3\"}"
  echo "{\"train\": {\"max_steps\": $2$load}}" >"$folder/$1.json"
}

# submit NAME LAUNCHER SCRIPT [SBATCH OPTIONS]: the job's number. Its log, output folder and settings (settings_of) are
# named NAME; `more` has further words for the program.
more=()
submit() {
  TESSERA_LAUNCHER=$2 sbatch --parsable --job-name="$1" --ntasks-per-node=2 --cpus-per-task=1 --output="$folder/$1.log" \
      "${@:4}" "scripts/slurm/$3" "$folder/$1.json" "${settings[@]}" "${by_two[@]}" \
      --train.checkpoint.output_dir "$folder/$1" "${more[@]}"
}
job_says() { scontrol -o show job "$1" | sed -nE "s/.* $2=([^ ]*).*/\1/p"; }  # job, field
seconds_of() { date -u -d "1970-01-01 $(job_says "$1" RunTime)" +%s; }
trains() { [ -e "$folder/$1/metrics.jsonl" ] && [ "$(wc -l <"$folder/$1/metrics.jsonl")" -ge 3 ]; }
has_ended() { case $(job_says "$1" JobState) in COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL) ;; *) return 1 ;; esac; }
is_requeued() {  # and slurmd has cleaned up after the first start, or it would do so during the second
  [ "$(job_says "$1" JobState) $(job_says "$1" Reason)" = 'PENDING BeginTime' ] &&
    [ ! -e "$folder/spool/$(printf 'job%05d' "$1")" ]
}

expect_training() { wait_for 120 trains "$1" || fail "job $1 does no steps"; }
expect_in_log() {  # name, count, text
  local count; count=$(grep -cF -e "$3" "$folder/$1.log") || true
  [ "$count" = "$2" ] || fail "the log of job $1 has $count times '$3' instead of $2"
}
expect_end() {  # name, job, state, exit code, starts
  wait_for 240 has_ended "$2" || fail "job $1 does not end"
  local end; end="$(job_says "$2" JobState) $(job_says "$2" ExitCode) after $(($(job_says "$2" Restarts) + 1)) starts"
  [ "$end" = "$3 $4 after $5 starts" ] || fail "job $1 ended as $end instead of $3 $4 after $5 starts"
}
# Slurm lets a requeued job wait for two minutes. Here five seconds do; within the second of its end slurmd would take the
# start for one of the ended job and refuse it. The next start does twenty more steps.
expect_resume() {  # name, job [, checkpoint that its settings name]
  wait_for 120 is_requeued "$2" || fail "job $1 is not requeued"
  local done; done=$(sed -nE 's/^stopped by SIGUSR1 after step ([0-9]+)$/\1/p' "$folder/$1.log")
  [ -n "$done" ] || fail "job $1 does not say at which step it stopped"
  settings_of "$1" $((done + 20)) "${3:-}"
  scontrol update JobId="$2" TimeLimit=10 StartTime=now+5
  expect_end "$1" "$2" COMPLETED 0:0 2
  expect_in_log "$1" 1 'USR1 came; the ranks save and stop'
  expect_in_log "$1" 1 "first start, from train.checkpoint.load_path = $earlier: there is no checkpoint in $folder/$1"
  expect_in_log "$1" 1 "resumed from $earlier after step 2 "
  expect_in_log "$1" 1 "$folder/$1 has checkpoints of its own, so train.checkpoint.load_path = $earlier is not read: it was for the first start"
  expect_in_log "$1" 1 "resumed from $folder/$1/"
  expect_in_log "$1" 1 "all $((done + 20)) steps are done"
  say "job $1 stopped after step $done, was requeued, and finished"
}

start_slurm
say "Slurm $(sinfo --version | cut -d' ' -f2) runs"
# A run of two steps, whose checkpoint the first start of two jobs begins with: it is named by the words of one, and in
# the settings of the other. They would train for days: what ends them is a signal, however fast this machine is.
earlier=$folder/earlier/step_000002
endless=100000000
settings_of earlier 2
mpirun --oversubscribe --bind-to none -n 2 "$program" "$folder/earlier.json" "${settings[@]}" "${by_two[@]}" \
    --train.checkpoint.output_dir "$folder/earlier" >"$folder/earlier.log" 2>&1 || fail "no run to begin with"
settings_of limited $endless
more=(--train.checkpoint.load_path "$earlier")
limited=$(submit limited mpirun train.sbatch --time=10 --signal=B:USR1@90)
more=()
settings_of signalled $endless "$earlier"
signalled=$(submit signalled srun train.sbatch)
settings_of gpu $endless
# Its GPUs are acted: with a real one the job would train.
gpu=''
[ -e /dev/nvidiactl ] || gpu=$(submit gpu srun train_gpu.sbatch --gres=gpu:2)
# Slurm looks after limits every half a minute; 60 to 120 s before the end are within the 90 s, and the half minute, ahead.
expect_training limited
scontrol update JobId="$limited" TimeLimit=$(($(seconds_of "$limited") / 60 + 2))
expect_training signalled
scancel --batch --signal=USR1 "$signalled"
if [ -n "$gpu" ]; then
  expect_end gpu "$gpu" FAILED 2:0 1
  grep -qF 'train.accelerator.device = cuda, but ' "$folder/gpu.log" || fail "job gpu does not say why"
  say "job gpu was refused by the program, and not requeued"
fi
expect_resume signalled "$signalled" "$earlier"

settings_of cancelled $endless
cancelled=$(submit cancelled srun train.sbatch)
expect_training cancelled
scancel "$cancelled"
expect_end cancelled "$cancelled" CANCELLED 143:0 1
expect_in_log cancelled 1 'fresh start'
expect_in_log cancelled 1 'stopped by SIG'
say "job cancelled has saved, and was not requeued"

# One task of srun in a job of two is one rank, whether srun speaks PMIx or not; SIGHUP to the batch shell stops a job.
settings_of single 2
single=$(sbatch --parsable --job-name=single --ntasks=2 --output="$folder/single.log" --wrap "set -e
    for mpi in pmix none; do srun --mpi=\$mpi --ntasks=1 '$program' '$folder/single.json' $(printf "'%s' " "${settings[@]}") \\
        --train.checkpoint.output_dir '$folder/single_'\$mpi; done")
expect_end single "$single" COMPLETED 0:0 1
expect_in_log single 2 'all 2 steps are done'
say "a srun of one task in job single was one rank"
settings_of hung_up $endless
hung_up=$(submit hung_up srun train.sbatch)
expect_training hung_up
scancel --batch --signal=HUP "$hung_up"
expect_end hung_up "$hung_up" FAILED 143:0 1
expect_in_log hung_up 1 'HUP came; the ranks save and stop'
expect_in_log hung_up 1 'stopped by SIGUSR1'
say "job hung_up has saved, and was not requeued"
expect_resume limited "$limited"

# However often a run was interrupted, it is the same run.
python3 - "$folder"/{limited,signalled}/metrics.jsonl <<'PYTHON'
import json, sys

losses = []
for file in sys.argv[1:]:
    lines = [line for line in map(json.loads, open(file)) if line["kind"] == "step"]
    if [line["step"] for line in lines] != list(range(3, len(lines) + 3)):
        sys.exit(f"{file}: not each step once: {[line['step'] for line in lines]}")
    losses.append([line["loss"] for line in lines])
if any(a != b for a, b in zip(*losses)):
    sys.exit("the losses of the two requeued jobs differ")
PYTHON
say "each step stands once in metrics.jsonl, and the two jobs have the same losses"
