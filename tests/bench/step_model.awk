# How long a decode step takes, as stages and bytes: fits the rows of the table "A model of a decode step" in a log page by least
# squares of relative errors, and prints what each row is off.
#
#   awk -f tests/bench/step_model.awk tests/bench/log/2026-11-23-decode-step-model.md
#
# Rows: | shape | layers | MB read | blocks | norms | us | ... |; blocks is 1 for weights in blocks (0: f16), norms 1 where a layer
# norms the results of its products too.  Rows whose shape ends in * take no part in the fit: they are predicted only.
BEGIN { FS = "|" }
/^# / { inside = /A model of a decode step/ }
inside && $3 + 0 > 0 && $7 + 0 > 0 {
    n++
    gsub(/^ +| +$/, "", $2)
    name[n] = $2
    us[n] = $7 + 0
    x[n, 1] = 5 * $3 + 2
    x[n, 2] = $5 ? 0 : $4
    x[n, 3] = $5 ? $4 : 0
    x[n, 4] = $6 ? $3 : 0
    fitted[n] = name[n] !~ /\*$/
}
END {
    k = 4
    for (r = 1; r <= n; r++)
        for (i = 1; fitted[r] && i <= k; i++) {
            for (j = 1; j <= k; j++)
                m[i, j] += x[r, i] * x[r, j] / us[r] ^ 2
            m[i, k + 1] += x[r, i] / us[r]
        }
    for (i = 1; i <= k; i++) # normal equations: Gauss and Jordan; the matrix is positive definite
        for (r = 1; r <= k; r++) {
            if (r == i)
                continue
            f = m[r, i] / m[i, i]
            for (j = 1; j <= k + 1; j++)
                m[r, j] -= f * m[i, j]
        }
    for (i = 1; i <= k; i++)
        c[i] = m[i, k + 1] / m[i, i]
    printf "a stage %.2f us; f16 %.2f TB/s, blocks %.2f TB/s; further norms %.2f us a layer\n", c[1], 1 / c[2], 1 / c[3], c[4]
    for (r = 1; r <= n; r++) {
        t = 0
        for (i = 1; i <= k; i++)
            t += c[i] * x[r, i]
        printf "%-24s %6.0f us, predicted %6.0f (%+.1f%%)\n", name[r], us[r], t, 100 * (t / us[r] - 1)
    }
}
