#!/usr/bin/env python3
"""Computes in plain Python what a layer of multi-token prediction gives, and compares: draft_reference.py MODEL_DIR HEADS.json

Independent of the compiler: config.json and safetensors alone, with the formulas of DeepSeek-V3 (arXiv:2412.19437, section 2.2) and of the
families' layers.  HEADS.json is what tests/tools/heads prints.
"""
import json, math, struct, sys


def load(folder):
    out = {}
    data = open(f"{folder}/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    for key, t in json.loads(data[8:8 + n]).items():
        if key == "__metadata__":
            continue
        a, b = (8 + n + x for x in t["data_offsets"])
        if t["dtype"] == "F32":
            flat = list(struct.unpack(f"<{(b - a) // 4}f", data[a:b]))
        else:
            words = struct.unpack(f"<{(b - a) // 2}H", data[a:b])
            flat = list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *[w << 16 for w in words])))
        shape = t["shape"]
        out[key] = [flat[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])] if len(shape) == 2 else flat
    return out


def times(w, x):
    return [sum(a * b for a, b in zip(row, x)) for row in w]


def norm(x, w, eps, add):
    k = 1 / math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [v * k * (g + add) for v, g in zip(x, w)]


def silu(x):
    return x / (1 + math.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def relu2(x):
    return max(x, 0) ** 2


def softmax(x):
    top = max(x)
    e = [math.exp(v - top) for v in x]
    return [v / sum(e) for v in e]


class Layer:
    def __init__(self, c, w, at):
        self.c, self.at = c, at
        self.w = {k[len(at):]: v for k, v in w.items() if k.startswith(at)}
        self.eps, self.kind = c.get("rms_norm_eps", c.get("layer_norm_epsilon")), c["model_type"]
        self.add = 1 if self.kind.startswith(("gemma3", "qwen3_5", "qwen3_next")) else 0
        self.act = relu2 if c.get("mlp_hidden_act") == "relu2" else gelu if "hidden_activation" in c else silu
        rope = c.get("rope_parameters") or {}
        rope = rope.get("full_attention", rope)
        self.theta = rope.get("rope_theta", c.get("rope_theta"))  # None: attention without positions
        self.part = rope.get("partial_rotary_factor", c.get("partial_rotary_factor", 1)) or 1
        self.kept = []

    def rotate(self, x, pos, dims, pairs=False):
        half, out = dims // 2, list(x)
        for i in range(half if self.theta else 0):
            angle = pos * self.theta ** (-2 * i / dims)
            a, b = (2 * i, 2 * i + 1) if pairs else (i, i + half)
            out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
            out[b] = x[b] * math.cos(angle) + x[a] * math.sin(angle)
        return out

    def latent(self, x, pos):
        c, w = self.c, self.w
        h, plain, turned = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        dv, rank, pairs = c["v_head_dim"], c["kv_lora_rank"], c.get("rope_interleave", True)
        q = times(w["self_attn.q_b_proj.weight"],
                  norm(times(w["self_attn.q_a_proj.weight"], x), w["self_attn.q_a_layernorm.weight"], 1e-6, 0))
        kv = times(w["self_attn.kv_a_proj_with_mqa.weight"], x)
        kr = self.rotate(kv[rank:], pos, turned, pairs)
        up = times(w["self_attn.kv_b_proj.weight"], norm(kv[:rank], w["self_attn.kv_a_layernorm.weight"], 1e-6, 0))
        k = [up[i * (plain + dv):i * (plain + dv) + plain] + kr for i in range(h)]
        v = [up[i * (plain + dv) + plain:(i + 1) * (plain + dv)] for i in range(h)]
        q = [q[i * (plain + turned):(i + 1) * (plain + turned)] for i in range(h)]
        q = [y[:plain] + self.rotate(y[plain:], pos, turned, pairs) for y in q]
        self.kept.append((k, v))
        return self.attend(q, (plain + turned) ** -0.5, h)

    def attend(self, q, scale, kv):
        out, group = [], len(q) // kv
        for i, y in enumerate(q):
            p = softmax([scale * sum(a * b for a, b in zip(y, k[i // group])) for k, _ in self.kept])
            out += [sum(a * v[i // group][d] for a, (_, v) in zip(p, self.kept)) for d in range(len(self.kept[0][1][0]))]
        return times(self.w["self_attn.o_proj.weight"], out) if not self.gate else times(
            self.w["self_attn.o_proj.weight"], [a / (1 + math.exp(-g)) for a, g in zip(out, self.gate)])

    def attention(self, x, pos):
        c, w = self.c, self.w
        self.gate = None
        if "kv_lora_rank" in c:
            return self.latent(x, pos)
        h, kv = c["num_attention_heads"], c["num_key_value_heads"]
        dim = c.get("head_dim") or c["hidden_size"] // h
        dims = int(dim * self.part)

        def heads(name, n):
            y = times(w[f"self_attn.{name}_proj.weight"], x)
            if f"self_attn.{name}_proj.bias" in w:
                y = [a + b for a, b in zip(y, w[f"self_attn.{name}_proj.bias"])]
            return [y[i * dim:(i + 1) * dim] for i in range(len(y) // dim)]

        q, k, v = heads("q", h), heads("k", kv), heads("v", kv)
        if len(q) == 2 * h:
            self.gate = [g for i in range(h) for g in q[2 * i + 1]]
            q = q[::2]
        if "self_attn.q_norm.weight" in w:
            q = [norm(y, w["self_attn.q_norm.weight"], self.eps, self.add) for y in q]
            k = [norm(y, w["self_attn.k_norm.weight"], self.eps, self.add) for y in k]
        q, k = [self.rotate(y, pos, dims) for y in q], [self.rotate(y, pos, dims) for y in k]
        self.kept.append((k, v))
        return self.attend(q, c.get("query_pre_attn_scalar", dim) ** -0.5, kv)

    def dense(self, x, at):
        up = times(self.w[at + "up_proj.weight"], x)
        if at + "gate_proj.weight" not in self.w:
            return times(self.w[at + "down_proj.weight"], [self.act(b) for b in up])
        gate = times(self.w[at + "gate_proj.weight"], x)
        return times(self.w[at + "down_proj.weight"], [self.act(a) * b for a, b in zip(gate, up)])

    def experts(self, x):
        c, w = self.c, self.w
        logits = times(w["mlp.gate.weight"], x)
        if self.kind.startswith("qwen"):
            scores = by = softmax(logits)
        else:
            scores = [1 / (1 + math.exp(-v)) for v in logits]
            by = [a + b for a, b in zip(scores, w["mlp.gate.e_score_correction_bias"])]
            groups = c.get("n_group", 1)
            size = len(by) // groups
            best = sorted(range(groups), key=lambda g: -sum(sorted(by[g * size:(g + 1) * size])[-2:]))[:c["topk_group"]]
            by = [v if i // size in best else -math.inf for i, v in enumerate(by)]
        taken = sorted(range(len(by)), key=lambda i: -by[i])[:c["num_experts_per_tok"]]
        total = sum(scores[i] for i in taken) if c.get("norm_topk_prob", True) else 1
        out = [0] * len(x)
        for i in taken:
            y = self.dense(x, f"mlp.experts.{i}.")
            out = [a + b * scores[i] / total * c.get("routed_scaling_factor", 1) for a, b in zip(out, y)]
        for name in ("mlp.shared_experts.", "mlp.shared_expert."):
            if name + "up_proj.weight" in w:
                y = self.dense(x, name)
                g = 1 / (1 + math.exp(-times(w["mlp.shared_expert_gate.weight"], x)[0])) if self.kind[0] == "q" else 1
                out = [a + g * b for a, b in zip(out, y)]
        return out

    def run(self, x, pos):
        w, n = self.w, lambda y, name: norm(y, self.w[name + ".weight"], self.eps, self.add)
        sandwich = "pre_feedforward_layernorm.weight" in w
        y = self.attention(n(x, "input_layernorm"), pos)
        x = [a + b for a, b in zip(x, n(y, "post_attention_layernorm") if sandwich else y)]
        y = n(x, "pre_feedforward_layernorm" if sandwich else "post_attention_layernorm")
        y = self.experts(y) if "mlp.gate.weight" in w else self.dense(y, "mlp.")
        return [a + b for a, b in zip(x, n(y, "post_feedforward_layernorm") if sandwich else y)]


def blocks(w):
    """Nemotron-H's two blocks, a mixer and a feed-forward part, by the names of a layer with both."""
    names = {"mtp.layers.0.norm.": "mtp.layer.input_layernorm.", "mtp.layers.0.mixer.": "mtp.layer.self_attn.",
             "mtp.layers.1.norm.": "mtp.layer.post_attention_layernorm.", "mtp.layers.1.mixer.": "mtp.layer.mlp."}
    for old, new in names.items():
        w.update({new + k[len(old):]: v for k, v in w.items() if k.startswith(old)})


def main():
    folder, made = sys.argv[1], json.load(open(sys.argv[2]))
    c, w = json.load(open(folder + "/config.json")), load(folder)
    c = c.get("text_config", c)
    qwen, nemotron = "mtp.fc.weight" in w, "mtp.layers.0.eh_proj.weight" in w
    table = next(k for k in w if k.endswith(("embed_tokens.weight", "embeddings.weight")))
    prefix = table[:table.rindex("embed")]
    at = "mtp.layers.0." if qwen or nemotron else f"{prefix}layers.{c['num_hidden_layers']}."
    names = ["mtp.fc", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"] if qwen else [
        at + x for x in ("eh_proj", "enorm", "hnorm", "shared_head.norm")]
    if nemotron:
        blocks(w)
        at, names[3] = "mtp.layer.", "mtp.layers.1.final_layernorm"
    fc, enorm, hnorm, last = (w[n + ".weight"] for n in names)
    layer, size = Layer(c, w, at), c["hidden_size"]
    embed = w[table]
    head = w.get("lm_head.weight", embed)
    scale = math.sqrt(size) if c["model_type"].startswith("gemma") else 1
    ids = list(made["tokens"])
    states = [made["hidden"][i:i + size] for i in range(0, len(made["hidden"]), size)]
    n, worst = len(states), 0
    assert len(ids) == n + 1
    for pos in range(n - 1 + len(made["ids"])):
        e = norm([v * scale for v in embed[ids[pos + 1]]], enorm, layer.eps, layer.add)
        x = layer.run(times(fc, e + norm(states[pos], hnorm, layer.eps, layer.add)), pos)
        y = norm(x, last, layer.eps, layer.add)
        if pos < n - 1:
            continue
        logits, got = times(head, y), made[f"logits{pos - n + 2}"]
        mean = sum(logits) / len(logits)
        std = math.sqrt(sum((v - mean) ** 2 for v in logits) / len(logits))
        worst = max(worst, max(abs(a - b) for a, b in zip(logits, got)) / std)
        ids.append(made["ids"][pos - n + 1])
        states.append(y if qwen or nemotron else x)
        if got.index(max(got)) != ids[-1]:
            sys.exit(f"draft {pos - n + 2} is {ids[-1]}, which is not the likeliest")
    limit = float(sys.argv[3]) if len(sys.argv) > 3 else 5e-3
    if not worst <= limit:
        sys.exit(f"logits differ by {worst:.3g} standard deviations, more than {limit}")
    print(f"{worst:.3g}")


main()
