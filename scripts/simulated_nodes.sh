#!/usr/bin/env bash
# Runs a program under mpirun on several simulated nodes of this machine, joined by links of a limited rate.
#   scripts/simulated_nodes.sh [--nodes N] [--ranks-per-node N] [--rate RATE] -- PROGRAM [ARGUMENTS...]
#     --rate   rate of each node's link in each direction, as tc writes it (1gbit, 200mbit); 0: no limit. Default 1gbit
# Each node is a network namespace with its own host name and temporary folder. Links are veth pairs on a bridge in another
# namespace, limited by a token bucket (tbf); the machine's own network is unchanged. Needs root, ip and tc (Debian:
# iproute2). Removes its namespaces when it ends; the next run removes those of a killed run.
set -euo pipefail

fail() { printf 'simulated_nodes: %s\n' "$*" >&2; exit 2; }

nodes=2 ranks=1 rate=1gbit
while [ $# -gt 0 ]; do
  case $1 in
    --nodes) nodes=$2; shift ;;
    --ranks-per-node) ranks=$2; shift ;;
    --rate) rate=$2; shift ;;
    -h|--help) sed -n '2,8s/^# //p' "$0"; exit 0 ;;
    --) shift; break ;;
    *) fail "unknown argument '$1'; see --help" ;;
  esac
  shift
done
[ $# -gt 0 ] || fail "no program; see --help"
[ "$(id -u)" -eq 0 ] || fail "needs root, for network namespaces"
command -v tc >/dev/null || fail "needs tc: apt-get install iproute2"

prefix=tessera-$$ folder=$(mktemp -d)
remove() {  # removes the namespaces whose names begin with $1, and ends the processes in them
  local name pid
  for name in $(ip netns list | awk '{print $1}' | grep -E "^$1-" || true); do
    for pid in $(ip netns pids "$name"); do kill -KILL "$pid" 2>/dev/null || true; done
    ip netns delete "$name"
  done
}
for owner in $(ip netns list | sed -nE 's/^tessera-([0-9]+)-.*/\1/p' | sort -u); do
  [ -d "/proc/$owner" ] || remove "tessera-$owner"
done
trap 'remove "$prefix"; rm -rf "$folder"' EXIT

limit() {  # limits the rate of device $2 in namespace $1
  [ "$rate" = 0 ] || ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "$rate" burst 256kb latency 50ms
}
switch=$prefix-switch hosts=()
ip netns add "$switch"
ip -n "$switch" link add bridge0 type bridge
ip -n "$switch" link set bridge0 up
for ((k = 0; k < nodes; k++)); do
  node=$prefix-$k
  ip netns add "$node"
  ip -n "$node" link set lo up
  ip -n "$node" link add eth0 type veth peer name port$k netns "$switch"
  ip -n "$node" address add 10.66.0.$((k + 1))/24 dev eth0
  ip -n "$node" link set eth0 up
  ip -n "$switch" link set port$k master bridge0 up
  limit "$node" eth0
  limit "$switch" port$k
  mkdir "$folder/$k"
  hosts+=("10.66.0.$((k + 1)):$ranks")
done

# mpirun calls this script in place of ssh, with an address and a command line.
cat > "$folder/agent" <<AGENT
#!/usr/bin/env bash
node=\$((\${1##*.} - 1)); shift
export TMPDIR=$folder/\$node OMPI_MCA_orte_tmpdir_base=$folder/\$node
exec ip netns exec $prefix-\$node unshare --uts bash -c "hostname node\$node; \$*"
AGENT
chmod +x "$folder/agent"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR=$folder/0
network=10.66.0.0/24
ip netns exec "$prefix-0" unshare --uts bash -c 'hostname node0; exec "$@"' - \
  mpirun --mca plm_rsh_agent "$folder/agent" --mca plm_rsh_no_tree_spawn 1 --mca orte_tmpdir_base "$folder/0" \
  --mca oob_tcp_if_include $network --mca btl_tcp_if_include $network --mca pml ob1 --mca btl vader,tcp,self \
  --bind-to none -x PATH -x OMP_NUM_THREADS --host "$(IFS=,; echo "${hosts[*]}")" -n $((nodes * ranks)) "$@"
