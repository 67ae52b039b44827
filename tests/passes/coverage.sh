# Every fusion that has a name and every reason to refuse one is shown by some golden pass test.
. "$(dirname "$0")/../lib.sh"

shown() { # KIND CODE: "# fused PASS CODE" or "# refused PASS CODE" in some case
    grep -qE "^# $1 +[a-z-]+ +${2//+/\\+} " "$SRC"/tests/passes/*.dir
}

reasons=$(sed -n 's/^REASON([a-z_]*, "\([a-z-]*\)".*/\1/p' "$SRC/passes/fusion/reasons.def")
rules=$(grep -oE 'return [^;]*"[a-z+-]+"[^;]*;' "$SRC/compiler/report/report_rules.c" | grep -oE '"[a-z+-]+"' | tr -d '"' | sort -u)
[ "$(echo "$reasons" | wc -l)" -ge 12 ] || fail "reasons" "not found in reasons.def"
[ "$(echo "$rules" | wc -l)" -ge 20 ] || fail "rules" "not found in report_rules.c"
for reason in $reasons; do
    check "refused: $reason" shown refused "$reason"
done
for rule in $rules; do
    check "fused: $rule" shown fused "$rule"
done
finish
