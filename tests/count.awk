# Adds up what ctest --output-junit wrote.  A test that tells its own counts (a Criterion executable, or a script with
# tests/lib.sh) counts as its cases, any other as one.  Prints: passed failed skipped.
function end_test() {
    if (!inside) return
    if (status == "fail" && f == 0) { f = 1; if (!told) p = 0 }
    # "notrun" is a script that skipped all of its cases, or an executable that is not there.
    if (status == "notrun" && !told) { if (skip_code) s = 1; else f = 1 }
    if (status == "run" && !told) p = 1
    passed += p; failed += f; skipped += s
    inside = 0
}
/^\t<testcase / {
    inside = 1; p = f = s = told = skip_code = 0
    match($0, /status="[a-z]*"/)
    status = substr($0, RSTART + 8, RLENGTH - 9)
}
/<skipped message="SKIP_RETURN_CODE/ { skip_code = 1 }
inside && /^(.*<system-out>)?\[SKIP\] / { s++ }
inside && /\[====\] Synthesis: Tested: / {
    for (i = 1; i < NF; i++) {
        if ($i == "Tested:") tested = $(i + 1)
        if ($i == "Passing:") passing = $(i + 1)
    }
    p += passing; f += tested - passing # skipped cases are in neither
    told = 1
}
inside && /^(.*<system-out>)?# [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped/ {
    sub(/^.*# /, "")
    p += $1; f += $3; s += $5; told = 1
}
/^\t<\/testcase>/ { end_test() }
END { print passed + 0, failed + 0, skipped + 0 }
