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
