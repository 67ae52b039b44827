# Sourced by tests of plans in parts: how ranks are started here.

# ranks N COMMAND...: N processes under mpirun on this host, on whatever processors there are, with memory between them.
ranks() {
    local n=$1
    shift
    mpirun --quiet --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader --mca pml ob1 -n "$n" "$@"
}

# without_ranks: ends a test of a build that knows no MPI.
without_ranks() {
    if ! command -v mpirun >/dev/null || [ ! -x "$TOOLS/ranks" ]; then
        skip "plans in parts" "this build has no MPI"
        finish
    fi
}

# children PID: the processes of the ranks that an mpirun of this number has started, in their order.
children() {
    ps -o pid= --ppid "$1" --sort=pid
}

# hosts COMMAND...: two ranks over TCP on two hosts, a and b, as far as one system can be two: each has its name, and its folder
# ./a or ./b as ./here. Returns 77 where namespaces are not allowed.  With an empty $quiet
# mpirun says what it notices.
hosts() {
    unshare --uts --mount true 2>/dev/null || return 77
    mkdir -p a b here
    cat >agent <<'END'
#!/bin/bash
# agent HOST COMMAND...: in place of ssh.
cd "$(dirname "$0")"
name=$1
shift
exec unshare --uts --mount bash -c 'hostname "$0" && mount --bind "$0" here && eval "$@"' "$name" "$@"
END
    chmod +x agent
    mpirun ${quiet---quiet} --allow-run-as-root --host a:1,b:1 --bind-to none --mca plm rsh --mca plm_rsh_agent "$PWD/agent" --mca btl self,tcp \
        --mca pml ob1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -n 2 "$@"
}
