# The harness itself: a failure must not be lost between a test and the last line of tests/run.sh.
. "$(dirname "$0")/lib.sh"

# counted TEXT: what count.awk makes of a report with these test cases.
counted() {
    printf '<testsuite>\n%b\n</testsuite>\n' "$1" | awk -f "$SRC/tests/count.awk"
}

# testcase STATUS OUTPUT [SKIP]: one test case as ctest writes it.
testcase() {
    printf '%s' "\t<testcase name=\"t\" classname=\"t\" time=\"1\" status=\"$1\">\n${3:-}"
    printf '%s' "\t\t<system-out>$2\n</system-out>\n\t</testcase>\n"
}

equal() { # NAME GOT WANT
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "'$2' instead of '$3'"; fi
}

criterion='[----] Criterion\n[SKIP] a::b: no data\n[====] Synthesis: Tested: 5 | Passing: %s | Failing: %s | Crashing: 0 '
equal "a plain pass" "$(counted "$(testcase run 'fine')")" "1 0 0"
equal "a plain failure" "$(counted "$(testcase fail 'bad')")" "0 1 0"
equal "a missing program" "$(counted "$(testcase notrun '' '<skipped message="Unable to find executable"/>\n')")" "0 1 0"
equal "a skipped script" "$(counted "$(testcase notrun '# 0 passed, 0 failed, 3 skipped' \
    '<skipped message="SKIP_RETURN_CODE=77"/>\n')")" "0 0 3"
equal "Criterion passes" "$(counted "$(testcase run "$(printf "$criterion" 5 0)")")" "5 0 1"
equal "Criterion fails" "$(counted "$(testcase fail "$(printf "$criterion" 3 2)")")" "3 2 1"
equal "Criterion passes but leaks" "$(counted "$(testcase fail "$(printf "$criterion" 5 0)")")" "5 1 1"
equal "a script passes" "$(counted "$(testcase run 'ok\n# 7 passed, 0 failed, 1 skipped')")" "7 0 1"
equal "a script fails" "$(counted "$(testcase fail 'FAILED\n# 7 passed, 2 failed, 1 skipped')")" "7 2 1"
equal "two of them" "$(counted "$(testcase run x)$(testcase fail y)")" "1 1 0"

# run_script TEXT: a script with lib.sh; prints its last line and its status.
run_script() {
    printf '. "%s"\n%s\n' "$SRC/tests/lib.sh" "$1" >script.sh
    bash script.sh none none none "$WORK/inner" 2>&1 | tail -n 1 && echo "${PIPESTATUS[0]}"
}
equal "success" "$(run_script 'check a true; finish')" $'# 1 passed, 0 failed, 0 skipped\n0'
equal "failure" "$(run_script 'check a true; check b false; finish')" $'# 1 passed, 1 failed, 0 skipped\n1'
equal "all skipped" "$(run_script 'skip a why; finish')" $'# 0 passed, 0 failed, 1 skipped\n77'
equal "no checks" "$(run_script 'finish' | tail -n 1)" 1
equal "ends early" "$(run_script 'check a true; exit 0')" $'the script ended early\n1'
equal "must fail, and does" \
    "$(run_script "check_fails a 3 oops sh -c 'echo oops >&2; exit 3'; finish")" $'# 1 passed, 0 failed, 0 skipped\n0'
equal "must fail, wrong status" \
    "$(run_script "check_fails a 1 oops sh -c 'echo oops >&2; exit 3'; finish")" $'# 0 passed, 1 failed, 0 skipped\n1'
equal "must fail, wrong message" \
    "$(run_script "check_fails a 3 oops sh -c 'echo other >&2; exit 3'; finish")" $'# 0 passed, 1 failed, 0 skipped\n1'
equal "must fail, two messages" \
    "$(run_script "check_fails a 3 oops sh -c 'echo oops >&2; echo oops >&2; exit 3'; finish")" \
    $'# 0 passed, 1 failed, 0 skipped\n1'

finish
