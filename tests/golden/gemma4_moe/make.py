#!/usr/bin/env python3
"""Makes the golden case gemma4_moe, which lies beside this file: a small Gemma 4 with experts beside the dense part of every
layer and values that are keys in full layers (as gemma-4-26B-A4B has them), random weights in bf16, and its logits, computed in
double precision from the formulas of transformers' modeling_gemma4.py (Gemma4TextDecoderLayer, Gemma4TextRouter,
Gemma4TextExperts, Gemma4TextAttention), without any code of this project.  Python's own library suffices."""
import json
import math
import os
import random
import struct

HIDDEN, LAYERS, HEADS, KV, WIDE_KV, DIM, WIDE_DIM = 72, 3, 6, 2, 1, 16, 32
FFN, VOCAB, WINDOW, EXPERTS, ACTIVE, EXPERT = 100, 197, 10, 8, 3, 44
PROMPT, GREEDY, EPS, CAP = 40, 24, 1e-6, 30.0
TYPES = ["sliding_attention", "sliding_attention", "full_attention"]
random.seed(8)
weights = {}  # name -> (shape, values)


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def add(name, *shape, gain=1.0):
    n = math.prod(shape)
    if len(shape) == 1:
        values = [bf16(random.uniform(0.5, 1.5)) for _ in range(n)]
    else:
        values = [bf16(random.gauss(0, gain / math.sqrt(shape[-1]))) for _ in range(n)]
    weights["model." + name] = (shape, values)


def full(i):
    return TYPES[i] == "full_attention"


def make():
    add("embed_tokens.weight", VOCAB, HIDDEN)
    add("norm.weight", HIDDEN)
    for i in range(LAYERS):
        p, d, kv = f"layers.{i}.", WIDE_DIM if full(i) else DIM, WIDE_KV if full(i) else KV
        for norm in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm", "post_feedforward_layernorm_1", "post_feedforward_layernorm_2",
                     "pre_feedforward_layernorm_2"):
            add(p + norm + ".weight", HIDDEN)
        add(p + "self_attn.q_proj.weight", HEADS * d, HIDDEN)
        add(p + "self_attn.k_proj.weight", kv * d, HIDDEN)
        if not full(i):
            add(p + "self_attn.v_proj.weight", kv * d, HIDDEN)
        add(p + "self_attn.o_proj.weight", HIDDEN, HEADS * d)
        add(p + "self_attn.q_norm.weight", d)
        add(p + "self_attn.k_norm.weight", d)
        add(p + "mlp.gate_proj.weight", FFN, HIDDEN)
        add(p + "mlp.up_proj.weight", FFN, HIDDEN)
        add(p + "mlp.down_proj.weight", HIDDEN, FFN)
        add(p + "router.proj.weight", EXPERTS, HIDDEN, gain=12.0)
        add(p + "router.scale", HIDDEN)
        add(p + "router.per_expert_scale", EXPERTS)
        add(p + "experts.gate_up_proj", EXPERTS, 2 * EXPERT, HIDDEN)
        add(p + "experts.down_proj", EXPERTS, HIDDEN, EXPERT)
        add(p + "layer_scalar", 1)


def values(name):
    return weights["model." + name][1]


def product(name, x, start=0, rows=None):
    w, n = values(name), len(x)
    rows = len(w) // n if rows is None else rows
    return [sum(a * b for a, b in zip(w[(start + r) * n:(start + r + 1) * n], x)) for r in range(rows)]


def norm(x, name=None):
    k = (sum(v * v for v in x) / len(x) + EPS) ** -0.5
    return [v * k for v in x] if name is None else [v * k * w for v, w in zip(x, values(name))]


def gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gated(gate, up):
    return [gelu(g) * u for g, u in zip(gate, up)]


def turn(x, position, wide):
    """Proportional: a quarter of the head turns, by frequencies of the whole head."""
    d, out = len(x), list(x)
    for j in range(d // 2):
        if wide and j >= d // 8:
            continue
        angle = position * (1e6 if wide else 1e4) ** (-2 * j / d)
        a, b = x[j], x[j + d // 2]
        out[j], out[j + d // 2] = a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)
    return out


def attention(i, x, cache):
    p, wide = f"layers.{i}.self_attn.", full(i)
    d, kv, t = (WIDE_DIM, WIDE_KV, len(cache)) if wide else (DIM, KV, len(cache))
    heads = lambda y: [y[h * d:(h + 1) * d] for h in range(len(y) // d)]
    q = [turn(norm(h, p + "q_norm.weight"), t, wide) for h in heads(product(p + "q_proj.weight", x))]
    made = product(p + "k_proj.weight", x)
    k = [turn(norm(h, p + "k_norm.weight"), t, wide) for h in heads(made)]
    v = [norm(h) for h in heads(made if wide else product(p + "v_proj.weight", x))]
    cache.append((k, v))
    y = []
    for h in range(HEADS):
        seen = cache if wide else cache[max(0, t + 1 - WINDOW):]
        g = h // (HEADS // kv)
        scores = [sum(a * b for a, b in zip(q[h], k[g])) for k, _ in seen]
        top = max(scores)
        scores = [math.exp(s - top) for s in scores]
        total = sum(scores)
        y += [sum(s * v[g][c] for s, (_, v) in zip(scores, seen)) / total for c in range(d)]
    return product(p + "o_proj.weight", y)


def route(i, x):
    p = f"layers.{i}.router."
    x = [v * s / math.sqrt(HIDDEN) for v, s in zip(norm(x), values(p + "scale"))]
    scores = [math.exp(s) for s in product(p + "proj.weight", x)]
    total = sum(scores)
    probabilities = [s / total for s in scores]
    best = sorted(range(EXPERTS), key=lambda e: -probabilities[e])[:ACTIVE]
    near = probabilities[best[-1]] - sorted(probabilities)[-ACTIVE - 1]
    total = sum(probabilities[e] for e in best)
    return [(e, probabilities[e] / total * values(p + "per_expert_scale")[e]) for e in best], near


def layer(i, x, cache):
    p = f"layers.{i}."
    plus = lambda a, b: [u + v for u, v in zip(a, b)]
    y = attention(i, norm(x, p + "input_layernorm.weight"), cache)
    x = plus(x, norm(y, p + "post_attention_layernorm.weight"))
    y = norm(x, p + "pre_feedforward_layernorm.weight")
    y = product(p + "mlp.down_proj.weight",
                gated(product(p + "mlp.gate_proj.weight", y), product(p + "mlp.up_proj.weight", y)))
    first = norm(y, p + "post_feedforward_layernorm_1.weight")
    chosen, near = route(i, x)
    y, second = norm(x, p + "pre_feedforward_layernorm_2.weight"), [0.0] * HIDDEN
    for e, weight in chosen:
        both = product(p + "experts.gate_up_proj", y, e * 2 * EXPERT, 2 * EXPERT)
        made = product(p + "experts.down_proj", gated(both[:EXPERT], both[EXPERT:]), e * HIDDEN, HIDDEN)
        second = [s + weight * m for s, m in zip(second, made)]
    second = norm(second, p + "post_feedforward_layernorm_2.weight")
    x = plus(x, norm(plus(first, second), p + "post_feedforward_layernorm.weight"))
    scalar = values(p + "layer_scalar")[0]
    return [v * scalar for v in x], near


def step(token, caches):
    embed = values("embed_tokens.weight")
    scale = math.sqrt(HIDDEN)
    x, nearest = [v * scale for v in embed[token * HIDDEN:(token + 1) * HIDDEN]], 1.0
    for i in range(LAYERS):
        x, near = layer(i, x, caches[i])
        nearest = min(nearest, near)
    return [CAP * math.tanh(v / CAP) for v in product("embed_tokens.weight", norm(x, "norm.weight"))], nearest


def save(folder, prompt, greedy, margins, logits):
    header, data = {}, b""
    for name, (shape, v) in weights.items():
        raw = b"".join(struct.pack("<f", x)[2:] for x in v)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
    flat = [x for row in logits for x in row]
    mean = sum(flat) / len(flat)
    with open(folder + "/logits.f32", "wb") as f:
        f.write(struct.pack(f"<{len(flat)}f", *flat))
    with open(folder + "/expected.json", "w") as f:
        json.dump({"case": "gemma4_moe", "dtype": "bfloat16", "prompt": prompt, "greedy": greedy,
                   "greedy_margin": [round(m, 5) for m in margins], "logits_shape": [PROMPT, VOCAB],
                   "logits_std": round(math.sqrt(sum((x - mean) ** 2 for x in flat) / len(flat)), 4),
                   "reference": "make.py, double precision"}, f)
    config = {
        "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "attention_bias": False,
        "attention_k_eq_v": True, "bos_token_id": 1, "dtype": "bfloat16", "enable_moe_block": True, "eos_token_id": 2,
        "final_logit_softcapping": CAP, "global_head_dim": WIDE_DIM, "head_dim": DIM,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": HIDDEN, "hidden_size_per_layer_input": 0,
        "intermediate_size": FFN, "layer_types": TYPES, "max_position_embeddings": 512,
        "moe_intermediate_size": EXPERT, "num_attention_heads": HEADS, "num_experts": EXPERTS,
        "num_global_key_value_heads": WIDE_KV, "num_hidden_layers": LAYERS, "num_key_value_heads": KV,
        "num_kv_shared_layers": 0, "pad_token_id": 0, "rms_norm_eps": EPS,
        "rope_parameters": {
            "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
        "sliding_window": WINDOW, "tie_word_embeddings": True, "top_k_experts": ACTIVE, "use_cache": True,
        "use_double_wide_mlp": False, "vocab_size": VOCAB}
    with open(folder + "/config.json", "w") as f:
        json.dump(config, f, indent=1)
        f.write("\n")


def main():
    make()
    prompt = [random.randrange(3, VOCAB) for _ in range(PROMPT)]
    caches, logits, greedy, margins, nearest = [[] for _ in range(LAYERS)], [], [], [], 1.0
    for token in prompt:
        row, near = step(token, caches)
        logits.append(row)
        nearest = min(nearest, near)
    row = logits[-1]
    while True:
        best = sorted(range(VOCAB), key=lambda j: -row[j])[:2]
        greedy.append(best[0])
        margins.append(row[best[0]] - row[best[1]])
        if len(greedy) == GREEDY:
            break
        row, near = step(best[0], caches)
        nearest = min(nearest, near)
    save(os.path.dirname(os.path.abspath(__file__)), prompt, greedy, margins, logits)
    print(f"nearest tie of the router {nearest:.2g}, least margin {min(margins):.3g}")


if __name__ == "__main__":
    main()
