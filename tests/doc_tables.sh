#!/usr/bin/env bash
# Tables in docs/ that are made from tables of the code.  In a page, a generated table stands between the lines
#   <!-- table NAME -->   and   <!-- end -->
# and NAME is one of those below.
#
#   tests/doc_tables.sh            prints the pages whose tables are not those of the code (check.layout expects none)
#   tests/doc_tables.sh --write    writes them
set -eu
cd "$(dirname "$0")/.."

# rows MACRO FILE PROGRAM: runs PROGRAM for each MACRO(a, b, ...) of FILE, with the arguments in a[1], a[2], ...; texts lose
# their quotes, and neighbouring texts are one.
rows() {
    awk -v macro="$1" '
        function arguments(s,    i, c, depth, text, n, out) {
            n = 1; a[1] = ""
            for (i = 1; i <= length(s); i++) {
                c = substr(s, i, 1)
                if (c == "\\" && text) { a[n] = a[n] substr(s, ++i, 1); continue }
                if (c == "\"") { text = !text; continue }
                if (!text) {
                    if (c == "(" || c == "{") depth++
                    if (c == ")" || c == "}") { if (depth == 0) return n; depth-- }
                    if (c == "," && depth == 0) { a[++n] = ""; continue }
                    if (c == " " && a[n] == "") continue
                }
                a[n] = a[n] c
            }
            return 0 # goes on in the next line
        }
        function cell(s) { gsub(/\|/, "\\|", s); gsub(/ +/, " ", s); sub(/ +$/, "", s); return s }
        function words(s) { gsub(/ *\| */, ", ", s); return tolower(cell(s)) }
        { sub(/ *\\$/, "") }
        more == "" && match($0, "^ *" macro "\\(") { more = substr($0, RSTART + RLENGTH) }
        more != "" && !match($0, "^ *" macro "\\(") { sub(/^ +/, " "); more = more $0 }
        more != "" && (n_arguments = arguments(more)) { more = ""; show() }
        function show() { '"$3"' }' "$2"
}

table() {
    case $1 in
    ops)
        echo "| op | sources | traits | starts a region of | reads of each source | attributes |"
        echo "|---|---|---|---|---|---|"
        rows OP ir/ops.def '
            reads = a[6]; sub(/^ACCESS\(S\(/, "", reads); sub(/\)\)$/, "", reads); gsub(/\), S\(/, "; ", reads)
            if (reads == "ACCESS_NONE") reads = ""
            attributes = a[7]; sub(/^ATTRS\(/, "", attributes); sub(/\)$/, "", attributes)
            if (attributes == "ATTRS_NONE") attributes = ""
            printf "| `%s` | %s | %s | %s | %s | %s |\n", a[1], a[2] == a[3] ? a[2] : a[2] " to " a[3], words(a[4]), a[5], cell(reads), attributes'
        ;;
    types)
        echo "| type | values of a block | bytes of a block | bits a value |"
        echo "|---|---:|---:|---:|"
        rows TYPE base/storage/types.def 'if (a[1] != "none") printf "| `%s` | %d | %d | %.3g |\n", a[1], a[2], a[3], 8 * a[3] / a[2]'
        ;;
    passes)
        echo "| letter | pass | what it does |"
        echo "|---|---|---|"
        rows PASS passes/passes.def 'printf "| %s | `%s` | %s |\n", substr(a[3], 2, 1), a[2], cell(a[6])'
        ;;
    reasons)
        echo "| reason | meaning |"
        echo "|---|---|"
        rows REASON passes/fusion/reasons.def 'printf "| `%s` | %s |\n", a[2], cell(a[3])'
        ;;
    templates)
        echo "| template | a workgroup makes | joins behind it |"
        echo "|---|---|---|"
        rows TEMPLATE ir/templates.def '
            joins = a[4]; gsub(/JOIN_/, "", joins)
            printf "| `%s` | %s | %s |\n", a[1], cell(a[7]), joins == "0" ? "nothing" : words(joins)'
        ;;
    kernels)
        echo "| kernel | template | needs | for |"
        echo "|---|---|---|---|"
        rows KERNEL kernels/kernels.def '
            needs = a[3]; gsub(/DOP_MATRIX_CAPS/, "matrix units", needs); gsub(/DOP_CAP_/, "", needs)
            printf "| `%s` | %s | %s | %s |\n", a[1], a[2], needs == "0" ? "" : words(needs), cell(a[4])'
        ;;
    capabilities)
        echo "| name | capability |"
        echo "|---|---|"
        rows CAP base/caps.h 'if (n_arguments == 3 && a[1] ~ /^[0-9]+$/) printf "| `%s` | %s |\n", a[2], cell(a[3])'
        ;;
    sections)
        echo "| section | content |"
        echo "|---|---|"
        rows SECTION plan/plan_format.h 'if (a[1] ~ /^[0-9]+$/) printf "| %s | %s |\n", a[2], cell(a[4])'
        ;;
    target-fields)
        echo "| field | meaning | tier1 | lavapipe | nvidia-hopper |"
        echo "|---|---|---|---|---|"
        awk '
            FNR == 1 { file = FILENAME; sub(/.*\//, "", file); sub(/\.yaml$/, "", file) }
            match($0, /^ *[a-z_0-9]+:/) {
                key = substr($0, RSTART, RLENGTH - 1)
                value = substr($0, RLENGTH + 2)
                note = ""
                if (match(value, / *#/)) { note = substr(value, RSTART + RLENGTH + 1); value = substr(value, 1, RSTART - 1) }
                sub(/ +$/, "", value)
                if (key !~ /^ /) section = value == "" ? key : ""
                else sub(/^ */, section ".", key)
                if (key == "schedule.like") key = "schedule"
                if (value == "" || key == "name" || key == "caps" || key == "devices" || key ~ /^schedule\./) next
                if (!(key in there)) order[++n] = key
                there[key] = 1
                if (meaning[key] == "") meaning[key] = note
                of[key, file] = value
            }
            END {
                for (i = 1; i <= n; i++)
                    printf "| `%s` | %s | %s | %s | %s |\n", order[i], meaning[order[i]], of[order[i], "tier1"],
                        of[order[i], "lavapipe"], of[order[i], "nvidia-hopper"]
            }' examples/targets/nvidia-hopper.yaml examples/targets/tier1.yaml examples/targets/lavapipe.yaml
        ;;
    schedule-numbers)
        echo "| number | what it is | nvidia-hopper |"
        echo "|---|---|---|"
        {
            sed -nE 's/^  ([a-z_0-9]+): ([0-9]+).*/\1\t\2/p' examples/targets/nvidia-hopper.yaml
            rows NUMBER ir/schedule_numbers.def 'printf "%s\t%s\t\n", a[1], cell(a[3])'
            rows TABLE ir/schedule_numbers.def 'printf "%s\t%s\t\n", a[1], cell(a[6])'
        } | awk -F '\t' 'NF == 2 { of[$1] = $2; next } { printf "| `%s` | %s | %s |\n", $1, $2, $1 in of ? of[$1] : "a list" }'
        ;;
    *)
        echo "doc_tables.sh: no table $1" >&2
        return 1
        ;;
    esac
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for page in docs/*.md; do
    for name in $(sed -n 's/^<!-- table \([a-z-]*\) -->$/\1/p' "$page"); do
        [ -s "$work/$name" ] || table "$name" >"$work/$name"
    done
    awk -v dir="$work" '
        !inside { print }
        match($0, /^<!-- table [a-z-]+ -->$/) {
            file = dir "/" substr($0, 12, RLENGTH - 15)
            while ((getline line < file) > 0) print line
            inside = 1
        }
        inside && /^<!-- end -->$/ { print; inside = 0 }' "$page" >"$work/page"
    cmp -s "$page" "$work/page" && continue
    echo "$page: its tables are not those of the code: tests/doc_tables.sh --write"
    [ "${1:-}" != --write ] || cp "$work/page" "$page"
done
