# doppler-exec --compare against the logits that each plan writes by itself, and what it refuses.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip compare "no python3"; finish; }
model=$SRC/tests/golden/llama
compile() { "$DOPPLERC" "$model" --target lavapipe --ctx 64 --chunks 8 --quiet "$@"; }
check "a plan" compile -o a.plan
check "and one with other weights" compile --quant q8_0 -o b.plan
ids="1 5 9 13 2 44 7 21 30 3 11"

cat >expected.py <<'PYTHON'
import json, math, struct, sys
vocab, ids = int(sys.argv[1]), [int(i) for i in sys.argv[2].split()]
made = json.load(open("made"))
def rows(name):
    b = open(name, "rb").read()
    v = struct.unpack("<%df" % (len(b) // 4), b)
    return [v[i:i + vocab] for i in range(0, len(v), vocab)]
def probabilities(row):
    most = max(row)
    e = [math.exp(x - most) for x in row]
    return [math.log(x / sum(e)) for x in e]
def near(what, got, want):
    assert abs(got - want) <= 1e-6 + 1e-4 * abs(want), (what, got, want)
for part, a, b in (("score", "a.score", "b.score"), ("decode", "a.decode", "b.decode")):
    A, B, got = rows(a), rows(b), made[part]
    assert len(A) == len(B) == len(ids) == got["positions"]
    apart = [abs(x - y) for p, q in zip(A, B) for x, y in zip(p, q)]
    P, Q = [probabilities(r) for r in A], [probabilities(r) for r in B]
    kl = [sum(math.exp(x) * (x - y) for x, y in zip(p, q)) for p, q in zip(P, Q)]
    assert max(apart) > 0
    near(part, got["maxDifference"], max(apart))
    near(part, got["meanDifference"], sum(apart) / len(apart))
    near(part, got["klDivergence"], sum(kl) / len(kl))
    near(part, got["maxKlDivergence"], max(kl))
    assert got["sameLargest"] == sum(p.index(max(p)) == q.index(max(q)) for p, q in zip(A, B))
    if part == "score":
        for plan, X in zip(made["plans"], (P, Q)):
            nll = -sum(X[i][ids[i + 1]] for i in range(len(ids) - 1)) / (len(ids) - 1)
            near("perplexity", plan["perplexity"], math.exp(nll))
greedy = [[int(i) for i in open(f).read().split()] for f in ("a.ids", "b.ids")]
same = 0
while same < len(greedy[0]) and greedy[0][same] == greedy[1][same]:
    same += 1
assert made["greedy"] == {"ids": len(greedy[0]), "same": same}, (made["greedy"], greedy)
PYTHON
for plan in a b; do
    check "$plan: logits, scored" "$EXEC" $plan.plan --tokens "$ids" -n 0 --quiet --logits $plan.score
    check "$plan: logits, decoded" "$EXEC" $plan.plan --tokens "$ids" -n 0 --quiet --chunk 1 --logits $plan.decode
    "$EXEC" $plan.plan --tokens "$ids" -n 12 --temp 0 --ignore-eos --quiet --print-ids >$plan.ids
done
vocab=$(($(stat -c %s a.score) / 4 / 11))
check "two plans" sh -c '"$1" a.plan --compare b.plan --tokens "$2" -n 12 --json >made' sh "$EXEC" "$ids"
check "the numbers are those of the plans' own logits" python3 expected.py "$vocab" "$ids"
nothing='logits at most 0 apart, 0 on average; KL divergence 0 nats, at most 0; same largest logit at 100.00% of 11 positions'
same() { # of a plan and itself, in windows
    "$EXEC" a.plan --compare a.plan --tokens "$ids" --ppl-ctx 4 -n 8 >said && grep -qE '^text +11 tokens in 3 windows of at most 4$' said &&
        [ "$(grep -cE "^(scored|decoded) +$nothing\$" said)" -eq 2 ] &&
        grep -qE '^greedy +all 8 ids are the same$' said
}
check "a plan and itself" same
check "a text that leaves no room, which as many as asked are written behind the beginning of" \
    sh -c '"$1" a.plan --compare a.plan --tokens "$(seq -s " " 1 100)" -n 8 | grep -qE "^greedy +all 8 ids are the same$"' sh "$EXEC"
check_fails "without a text" 2 "--compare reads a text: give -f FILE" "$EXEC" a.plan --compare b.plan
check_fails "a window that does not fit" 1 "--ppl-ctx 64: at most 63 here" "$EXEC" a.plan --compare b.plan --tokens "$ids" --ppl-ctx 64
check_fails "ids of another model" 1 "token id 99999 is outside the vocabulary" "$EXEC" a.plan --compare b.plan --tokens 99999
check_fails "a plan that is not there" 1 "none.plan: error: cannot open" "$EXEC" a.plan --compare none.plan --tokens "$ids"
finish
