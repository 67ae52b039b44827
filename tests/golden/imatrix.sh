# doppler-exec --imatrix-out against sums made here from the model's files, and what dopplerc --imatrix makes of them.
. "$(dirname "$0")/../lib.sh"
command -v python3 >/dev/null || { skip imatrix "no python3"; finish; }
model=$SRC/tests/golden/mixtral

cat >sums.py <<'PYTHON'
import json, struct, sys

def gguf(path):
    b = open(path, "rb").read()
    at = 8
    def take(f):
        nonlocal at
        v = struct.unpack_from("<" + f, b, at)
        at += struct.calcsize("<" + f)
        return v[0]
    def text():
        nonlocal at
        n = take("Q")
        at += n
        return b[at - n:at].decode()
    n, kvs, keys = take("Q"), take("Q"), {}
    def value(t):
        if t == 4: return take("I")
        if t == 8: return text()
        assert t == 9
        e, k = take("I"), take("Q")
        return [value(e) for _ in range(k)]
    for _ in range(kvs):
        k = text()
        keys[k] = value(take("I"))
    rows = []
    for _ in range(n):
        name, dims = text(), [take("Q") for _ in range(take("I"))]
        assert take("I") == 0
        rows.append((name, dims, take("Q")))
    start = (at + 31) // 32 * 32
    def floats(dims, o):
        count = dims[0] * dims[1]
        return struct.unpack_from("<%df" % count, b, start + o)
    return keys, {name: (dims, floats(dims, o)) for name, dims, o in rows}

def bf16(model, name):
    b = open(model + "/model.safetensors", "rb").read()
    n = struct.unpack_from("<Q", b)[0]
    t = json.loads(b[8:8 + n])[name]
    assert t["dtype"] == "BF16"
    lo, hi = t["data_offsets"]
    return [struct.unpack("<f", struct.pack("<I", h << 16))[0]
            for h in struct.unpack_from("<%dH" % ((hi - lo) // 2), b, 8 + n + lo)]

def near(a, b, what):
    assert len(a) == len(b), what
    for x, y in zip(a, b):
        assert abs(x - y) <= 2e-4 * max(abs(y), 1e-3), (what, x, y)

model, path, ids = sys.argv[1], sys.argv[2], [int(i) for i in open(sys.argv[3]).read().split()]
keys, t = gguf(path)
config = json.load(open(model + "/config.json"))
hidden, eps, layers = config["hidden_size"], config["rms_norm_eps"], config["num_hidden_layers"]
experts, active = config["num_local_experts"], config["num_experts_per_tok"]
assert keys["general.type"] == "imatrix" and keys["imatrix.datasets"] == ["ids"], keys
assert keys["imatrix.chunk_size"] == 12 and keys["imatrix.chunk_count"] == (len(ids) + 11) // 12, keys

# The first layer's projections read the normed embedding.
embed, norm = bf16(model, "model.embed_tokens.weight"), bf16(model, "model.layers.0.input_layernorm.weight")
want = [0.0] * hidden
for i in ids:
    x = embed[i * hidden:(i + 1) * hidden]
    r = (sum(v * v for v in x) / hidden + eps) ** -0.5
    for c in range(hidden):
        want[c] += (x[c] * r * norm[c]) ** 2
for part in "qkv":
    near(t["blk.0.attn_%s.weight.in_sum2" % part][1], want, part)
for l in range(layers):
    b = "blk.%d." % l
    for part in ("attn_q", "attn_output", "ffn_gate_inp"):
        assert t[b + part + ".weight.counts"] == ([1, 1], (len(ids),)), part
    # A row counts for each expert that it chose: together `active` times what the router reads.
    for part in ("gate", "up", "down"):
        counts = t[b + "ffn_%s_exps.weight.counts" % part]
        assert counts[0] == [1, experts] and sum(counts[1]) == active * len(ids), counts
    dims, up = t[b + "ffn_up_exps.weight.in_sum2"]
    assert dims == [hidden, experts]
    near([sum(up[e * hidden + c] for e in range(experts)) for c in range(hidden)],
         [active * v for v in t[b + "ffn_gate_inp.weight.in_sum2"][1]], "experts")
    assert t[b + "ffn_down_exps.weight.in_sum2"][0] == [config["intermediate_size"], experts]
assert t["output.weight.counts"][1] == (len(ids),)
PYTHON

"$TOOLS/expect" tokens "$model/expected.json" . >ids
cp ids ids.txt
cat ids.txt ids.txt >ids # two windows of 12, and more
check "a plan for it" "$DOPPLERC" "$model" --target lavapipe --no-fuse --ctx 64 --chunks 8 -o m.plan --quiet &&
    check "it is measured" "$EXEC" m.plan --tokens-file ids --imatrix-out m.imatrix --ppl-ctx 12 --quiet &&
    check "the sums are right" python3 sums.py "$model" m.imatrix ids
check "a fused plan" "$DOPPLERC" "$model" --target lavapipe --ctx 64 --chunks 8 -o f.plan --quiet &&
    check_fails "is refused" 1 "computes the inputs of products inside of its kernels (L0/qkv), where nothing can look at them: make one with dopplerc --no-fuse" \
        "$EXEC" f.plan --tokens-file ids --imatrix-out f.imatrix --quiet && check "and leaves no file" [ ! -e f.imatrix ]
check_fails "without a text" 2 "--imatrix-out reads a text: give -f FILE" "$EXEC" m.plan --imatrix-out f.imatrix
check_fails "not over its input" 2 "this file is an input" "$EXEC" m.plan --tokens-file ids --imatrix-out ids

quantize() { "$DOPPLERC" "$1" --target lavapipe --ctx 64 --chunks 8 --quant "$2" -o "$3" "${@:4}" 2>"$3.err"; }
check "quantized without" quantize "$model" q4_0 plain.plan
check "quantized with" quantize "$model" q4_0 weighed.plan --imatrix m.imatrix
check "they differ" bash -c '! cmp -s plain.plan weighed.plan'
check "the matrix knows all but the embedding" grep -q "m.imatrix has nothing about 1 of the quantized weights" weighed.plan.err
check_fails "of another model" 1 "blk.0.attn_k.weight has 64 values, and the matrix model.layers.0.self_attn.k_proj.weight of this model has 256 inputs" \
    "$DOPPLERC" "$SRC/examples/shakespeare-gemma3" --target lavapipe --quant q4_0 --imatrix m.imatrix -o x.plan
check_fails "without --quant" 2 "--imatrix is about what --quant makes" "$DOPPLERC" "$model" --imatrix m.imatrix -o x.plan
check_fails "a model in its place" 1 "is no importance matrix" "$DOPPLERC" "$model" --quant q4_0 --imatrix "$model/config.json" -o x.plan
head -c 400 m.imatrix >cut
check_fails "cut off" 1 "cut: error: " "$DOPPLERC" "$model" --quant q4_0 --imatrix cut -o x.plan
check_fails "no such file" 1 "nowhere: error: cannot open" "$DOPPLERC" "$model" --quant q4_0 --imatrix nowhere -o x.plan
finish
