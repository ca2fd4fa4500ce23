#!/usr/bin/env bash
# Trains in a Slurm job that ends before its time limit with a checkpoint and goes on from it when its turn comes again.
# The batch scripts beside it call it from the root of the tree:
#   scripts/slurm/run_and_requeue.sh [SETTINGS.json] [--path.to.setting value ...]
# From the environment: TESSERA_LAUNCHER, mpirun (default) or srun; TESSERA_TRAIN, the program (build/bin/tessera-train).
# Exit code: the launcher's, which is the program's.
set -euo pipefail

say() { printf 'slurm job %s: %s\n' "${SLURM_JOB_ID:-none}" "$*" >&2; }
fail() { say "$*"; exit 2; }

program=${TESSERA_TRAIN:-build/bin/tessera-train}
case ${1:-} in -h|--help) sed -n '2,6s/^# //p' "$0"; exit 0 ;; esac
[ -n "${SLURM_JOB_ID:-}" ] || fail "this runs in a Slurm job; submit one: sbatch scripts/slurm/train.sbatch"
[ -x "$program" ] || fail "no program $program in $PWD; build it with scripts/build.sh and submit from the root of the tree, or set TESSERA_TRAIN"

threads=${SLURM_CPUS_PER_TASK:-1}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$threads}
case ${TESSERA_LAUNCHER:-mpirun} in
  # It takes nodes and tasks from Slurm. A rank has twice 10 s to end where mpirun ends them, not twice 1 s.
  mpirun) launch=(mpirun --bind-to none --mca odls_base_sigkill_timeout 10 -x OMP_NUM_THREADS) ;;
  # Since Slurm 22.05 a step does not take the CPUs of a task from its job. Ranks left by one that died end after 120 s.
  srun) launch=(srun --mpi=pmix --cpus-per-task="$threads" --wait=120) ;;
  *) fail "TESSERA_LAUNCHER is ${TESSERA_LAUNCHER}; use mpirun or srun" ;;
esac

# Both launchers pass USR1 on to every rank. TERM comes from scancel and at the time limit itself, HUP from a terminal
# that closes; mpirun would answer them by killing, so the ranks get USR1 then too.
signal='' launcher=''
pass_on() {
  [ -n "$signal" ] || say "$1 came; the ranks save and stop"
  signal=${signal:-$1}
  [ -z "$launcher" ] || kill -USR1 "$launcher" 2>/dev/null || true
}
trap 'pass_on USR1' USR1
trap 'pass_on TERM' TERM
trap 'pass_on HUP' HUP

say "start $((${SLURM_RESTART_COUNT:-0} + 1)), $(date '+%F %T')"
"${launch[@]}" "$program" "$@" --train.checkpoint.own_first true &
launcher=$!
[ -z "$signal" ] || pass_on "$signal"
# A signal interrupts `wait`; the last one, of a launcher that has ended, gives its exit code.
while kill -0 "$launcher" 2>/dev/null; do wait "$launcher" || true; done
code=0
wait "$launcher" || code=$?
trap '' TERM HUP

# 143: stopped by the signal after a whole step; 138: it came before the ranks, or the launcher, listened to it.
if [ "$signal" = USR1 ] && { [ $code -eq 143 ] || [ $code -eq 138 ]; }; then
  say "requeued; the next start goes on from the checkpoint"
  scontrol requeue "$SLURM_JOB_ID" || say "it could not be requeued; submit it again, it goes on from the checkpoint"
fi
exit $code
