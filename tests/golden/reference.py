#!/usr/bin/env python3
"""Makes golden cases by formula: small models in their published form with random weights in bf16, and their logits, computed in
double precision from the formulas of the families' public sources, without any code of this project.

    reference.py CASE [FOLDER]     writes FOLDER, by default the folder CASE beside this file

A case is a class: make() adds its weights, step() gives the logits of one token after those before it, and CONFIG is its config.json.
Python's own library suffices."""
import json
import math
import os
import random
import struct
import sys


def bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def plus(a, b):
    return [u + v for u, v in zip(a, b)]


def times(a, b):
    return [u * v for u, v in zip(a, b)]


def dot(a, b):
    return sum(u * v for u, v in zip(a, b))


def silu(x):
    return x / (1 + math.exp(-x))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def softmax(s):
    top = max(s)
    e = [math.exp(v - top) for v in s]
    total = sum(e)
    return [v / total for v in e]


def split(x, *sizes):
    out, at = [], 0
    for n in sizes:
        out.append(x[at:at + n])
        at += n
    return out


def heads_of(x, n):
    d = len(x) // n
    return [x[i * d:(i + 1) * d] for i in range(n)]


def turned(x, position, theta, pairs, n=None, frequencies=None):
    """Rotary embedding of the first n values, of halves or of pairs (2i, 2i+1)."""
    n = len(x) if n is None else n
    out = list(x)
    for j in range(n // 2):
        a, b = (2 * j, 2 * j + 1) if pairs else (j, j + n // 2)
        angle = position * (frequencies[j] if frequencies else theta ** (-2 * j / n))
        c, s = math.cos(angle), math.sin(angle)
        out[a], out[b] = x[a] * c - x[b] * s, x[b] * c + x[a] * s
    return out


def yarn(s, base, n):
    """Frequencies by YaRN, of n values."""
    def place(turns):
        return n * math.log(s["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(base))
    low, high = max(math.floor(place(s["beta_fast"])), 0), min(math.ceil(place(s["beta_slow"])), n - 1)
    frequencies = []
    for j in range(n // 2):
        ramp = min(max((j - low) / max(high - low, 0.001), 0), 1)
        f = base ** (-2 * j / n)
        frequencies.append(f / s["factor"] * ramp + f * (1 - ramp))
    return frequencies


def attended(q, keys, values, scale, bias=None):
    s = [scale * dot(q, k) + (bias(j) if bias else 0) for j, k in enumerate(keys)]
    w = softmax(s)
    return [sum(p * v[c] for p, v in zip(w, values)) for c in range(len(values[0]))]


def write(path, tensors):
    """Writes a safetensors file: name to (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def halves(weights):
    """Weights as write() takes them, in bf16."""
    return {name: ("BF16", shape, b"".join(struct.pack("<f", x)[2:] for x in v)) for name, (shape, v) in weights.items()}


class Model:
    seed, prompt, greedy, ties = 1, 20, 24, 1e-4

    def __init__(self):
        self.w, self.near, self.caches, self.t = {}, 1e9, {}, 0
        random.seed(self.seed)
        self.make()
        self.tokens = [random.randrange(3, self.CONFIG["vocab_size"]) for _ in range(self.prompt)]

    def add(self, name, *shape, gain=1.0, bias=False):
        n = math.prod(shape)
        if bias:
            v = [bf16(random.gauss(0, 0.2)) for _ in range(n)]
        elif len(shape) == 1:
            v = [bf16(random.uniform(0.5, 1.5)) for _ in range(n)]
        else:
            v = [bf16(random.gauss(0, gain / math.sqrt(shape[-1]))) for _ in range(n)]
        self.w[name] = (shape, v)

    def values(self, name):
        return self.w[name][1]

    def row(self, name, i):
        n = self.w[name][0][-1]
        return self.values(name)[i * n:(i + 1) * n]

    def has(self, name):
        return name in self.w

    def product(self, name, x, start=0, rows=None):
        """Rows start.. of a matrix times x, plus its bias where there is one."""
        w, n = self.values(name), len(x)
        rows = len(w) // n if rows is None else rows
        y = [dot(w[(start + r) * n:(start + r + 1) * n], x) for r in range(rows)]
        bias = name[:-len("weight")] + "bias"
        return plus(y, self.values(bias)) if name.endswith("weight") and self.has(bias) else y

    def rms(self, x, name, eps):
        k = (dot(x, x) / len(x) + eps) ** -0.5
        return [v * k * w for v, w in zip(x, self.values(name + ".weight"))]

    def layernorm(self, x, name, eps):
        mean = sum(x) / len(x)
        k = (sum((v - mean) ** 2 for v in x) / len(x) + eps) ** -0.5
        y = [(v - mean) * k * w for v, w in zip(x, self.values(name + ".weight"))]
        return plus(y, self.values(name + ".bias")) if self.has(name + ".bias") else y

    def cache(self, name):
        return self.caches.setdefault(name, [])

    def gap(self, scores, k):
        """Notes how near a choice of the k largest comes to another one."""
        order = sorted(scores, reverse=True)
        if len(order) > k:
            self.near = min(self.near, order[k - 1] - order[k])

    def run(self):
        logits, greedy, margins = [], [], []
        for token in self.tokens:
            logits.append(self.step(token))
            self.t += 1
        row = logits[-1]
        while True:
            best = sorted(range(len(row)), key=lambda j: -row[j])[:2]
            greedy.append(best[0])
            margins.append(row[best[0]] - row[best[1]])
            if len(greedy) == self.greedy:
                return logits, greedy, margins
            row = self.step(best[0])
            self.t += 1

    def stored(self):
        return self.w

    def save(self, case, folder, logits, greedy, margins):
        os.makedirs(folder, exist_ok=True)
        write(folder + "/model.safetensors", halves(self.stored()))
        flat = [x for row in logits for x in row]
        mean = sum(flat) / len(flat)
        with open(folder + "/logits.f32", "wb") as f:
            f.write(struct.pack(f"<{len(flat)}f", *flat))
        with open(folder + "/expected.json", "w") as f:
            json.dump({"case": case, "dtype": "bfloat16", "prompt": self.tokens, "greedy": greedy,
                       "greedy_margin": [round(m, 5) for m in margins],
                       "logits_shape": [len(logits), len(logits[0])],
                       "logits_std": round(math.sqrt(sum((x - mean) ** 2 for x in flat) / len(flat)), 4),
                       "reference": "reference.py, double precision"}, f)
        with open(folder + "/config.json", "w") as f:
            json.dump(self.CONFIG, f, indent=1)
            f.write("\n")


class Latent(Model):
    """Latent attention and experts as in DeepSeek-V3 (transformers, modeling_deepseek_v3.py), written without the absorbed form."""
    pairs, index, index_pairs, softmax_router = True, False, False, False
    eps, theta = 1e-6, 10000.0

    def make(self):
        c = self.CONFIG.get("text_config", self.CONFIG)
        self.c = c
        hidden, heads = c["hidden_size"], c["num_attention_heads"]
        plain, rot, val = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        self.add("model.embed_tokens.weight", c["vocab_size"], hidden)
        self.add("model.norm.weight", hidden)
        self.add("lm_head.weight", c["vocab_size"], hidden)
        for i in range(c["num_hidden_layers"]):
            p = f"model.layers.{i}."
            a, m = p + "self_attn.", p + "mlp."
            self.add(p + "input_layernorm.weight", hidden)
            self.add(p + "post_attention_layernorm.weight", hidden)
            self.add(a + "q_a_proj.weight", c["q_lora_rank"], hidden)
            self.add(a + "q_a_layernorm.weight", c["q_lora_rank"])
            self.add(a + "q_b_proj.weight", heads * (plain + rot), c["q_lora_rank"], gain=2)
            self.add(a + "kv_a_proj_with_mqa.weight", c["kv_lora_rank"] + rot, hidden)
            self.add(a + "kv_a_layernorm.weight", c["kv_lora_rank"])
            self.add(a + "kv_b_proj.weight", heads * (plain + val), c["kv_lora_rank"], gain=2)
            self.add(a + "o_proj.weight", hidden, heads * val)
            if self.index and self.has_index(i):
                n, d = c["index_n_heads"], c["index_head_dim"]
                self.add(a + "indexer.wq_b.weight", n * d, c["q_lora_rank"])
                self.add(a + "indexer.wk.weight", d, hidden)
                self.add(a + "indexer.k_norm.weight", d)
                self.add(a + "indexer.k_norm.bias", d, bias=True)
                self.add(a + "indexer.weights_proj.weight", n, hidden)
            self.make_ffn(c, m, i)

    def make_ffn(self, c, m, i):
        hidden, width, n = c["hidden_size"], c["moe_intermediate_size"], c["n_routed_experts"]
        if i < c["first_k_dense_replace"]:
            self.add(m + "gate_proj.weight", c["intermediate_size"], hidden)
            self.add(m + "up_proj.weight", c["intermediate_size"], hidden)
            self.add(m + "down_proj.weight", hidden, c["intermediate_size"])
            return
        self.add(m + "gate.weight", n, hidden, gain=2)
        if not self.softmax_router:
            self.add(m + "gate.e_score_correction_bias", n, bias=True)
        for e in range(n):
            self.add(m + f"experts.{e}.gate_proj.weight", width, hidden)
            self.add(m + f"experts.{e}.up_proj.weight", width, hidden)
            self.add(m + f"experts.{e}.down_proj.weight", hidden, width)
        shared = width * c["n_shared_experts"]
        self.add(m + "shared_experts.gate_proj.weight", shared, hidden)
        self.add(m + "shared_experts.up_proj.weight", shared, hidden)
        self.add(m + "shared_experts.down_proj.weight", hidden, shared)

    def has_index(self, i):
        return True

    def turn(self, x, pairs, n=None):
        return turned(x, self.t, self.theta, pairs, n)

    def query_factor(self):
        return 1.0

    def ffn(self, p, x):
        y = times([silu(g) for g in self.product(p + "gate_proj.weight", x)], self.product(p + "up_proj.weight", x))
        return self.product(p + "down_proj.weight", y)

    def experts(self, m, x):
        c, logits = self.c, self.product(m + "gate.weight", x)
        scores = softmax(logits) if self.softmax_router else [sigmoid(s) for s in logits]
        by = list(scores) if self.softmax_router else plus(scores, self.values(m + "gate.e_score_correction_bias"))
        groups = heads_of(by, c["n_group"])
        worth = [sum(sorted(g, reverse=True)[:2]) for g in groups]
        self.gap(worth, c["topk_group"])
        kept = sorted(range(len(groups)), key=lambda g: -worth[g])[:c["topk_group"]]
        each = len(by) // len(groups)
        open_to = [e for e in range(len(by)) if e // each in kept]
        self.gap([by[e] for e in open_to], c["num_experts_per_tok"])
        best = sorted(open_to, key=lambda e: -by[e])[:c["num_experts_per_tok"]]
        total = sum(scores[e] for e in best) + 1e-20 if c["norm_topk_prob"] else 1.0
        y = self.ffn(m + "shared_experts.", x)
        for e in best:
            part = self.ffn(m + f"experts.{e}.", x)
            y = [a + scores[e] / total * c["routed_scaling_factor"] * b for a, b in zip(y, part)]
        return y

    def chosen(self, i, a, x, low):
        """Positions that the row sees: those of the largest index scores (DeepseekV32Indexer), or those of the layer before."""
        c, d, n = self.c, self.c["index_head_dim"], self.c["index_n_heads"]
        if not self.has_index(i):
            return self.last
        rot, keys = c["qk_rope_head_dim"], self.cache(a + "index")
        q = [self.turn(h, self.index_pairs, rot) for h in heads_of(self.product(a + "indexer.wq_b.weight", low), n)]
        k = self.layernorm(self.product(a + "indexer.wk.weight", x), a + "indexer.k_norm", 1e-6)
        keys.append(self.turn(k, self.index_pairs, rot))
        w = self.product(a + "indexer.weights_proj.weight", x)
        scores = [sum(w[h] * n ** -0.5 * max(0.0, dot(q[h], key) * d ** -0.5) for h in range(n)) for key in keys]
        self.gap(scores, c["index_topk"])
        self.last = sorted(sorted(range(len(keys)), key=lambda j: (-scores[j], j))[:c["index_topk"]])
        return self.last

    def attention(self, i, x):
        c, a = self.c, f"model.layers.{i}.self_attn."
        heads, plain, rot, val = c["num_attention_heads"], c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
        low = self.rms(self.product(a + "q_a_proj.weight", x), a + "q_a_layernorm", 1e-6)
        latent, turning = split(self.product(a + "kv_a_proj_with_mqa.weight", x), c["kv_lora_rank"], rot)
        latent = self.rms(latent, a + "kv_a_layernorm", 1e-6)
        turning = self.turn(turning, self.pairs)
        self.cache(a).append((heads_of(self.product(a + "kv_b_proj.weight", latent), heads), turning))
        seen = range(self.t + 1)
        if self.index:
            seen = self.chosen(i, a, x, low)
        y, scale = [], self.query_factor() * self.score_scale(plain + rot)
        for h, q in enumerate(heads_of(self.product(a + "q_b_proj.weight", low), heads)):
            q = q[:plain] + self.turn(q[plain:], self.pairs)
            made = [self.cache(a)[j] for j in seen]
            y += attended(q, [kv[h][:plain] + r for kv, r in made], [kv[h][plain:] for kv, _ in made], scale)
        return self.product(a + "o_proj.weight", y)

    def score_scale(self, dim):
        return dim ** -0.5

    def step(self, token):
        c, x = self.c, self.row("model.embed_tokens.weight", token)
        for i in range(c["num_hidden_layers"]):
            p, eps = f"model.layers.{i}.", c["rms_norm_eps"]
            x = plus(x, self.attention(i, self.rms(x, p + "input_layernorm", eps)))
            y = self.rms(x, p + "post_attention_layernorm", eps)
            dense = i < c["first_k_dense_replace"]
            x = plus(x, self.ffn(p + "mlp.", y) if dense else self.experts(p + "mlp.", y))
        return self.product("lm_head.weight", self.rms(x, "model.norm", c["rms_norm_eps"]))


LATENT = {
    "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 48,
    "intermediate_size": 96, "kv_lora_rank": 32, "max_position_embeddings": 512, "moe_intermediate_size": 32,
    "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3,
    "num_key_value_heads": 4, "q_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-6,
    "n_routed_experts": 8, "n_shared_experts": 1, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "use_cache": True, "v_head_dim": 16, "vocab_size": 160}


class deepseek_v32(Latent):
    """The index of DeepSeek-V3.2, whose rotation is that of halves, and YaRN (inference/model.py of DeepSeek-V3.2-Exp, without its
    Hadamard rotation, which changes no product, and without rounding to 8 bits)."""
    index, seed = True, 9
    CONFIG = dict(LATENT, architectures=["DeepseekV32ForCausalLM"], model_type="deepseek_v32", index_head_dim=16,
                  index_n_heads=8, index_topk=7, first_k_dense_replace=1, n_group=2, topk_group=1, ep_size=1,
                  moe_layer_freq=1, num_nextn_predict_layers=1, routed_scaling_factor=2.5, scoring_func="sigmoid",
                  topk_method="noaux_tc", rope_theta=10000,
                  rope_scaling={"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                                "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096})

    def turn(self, x, pairs, n=None):
        return turned(x, self.t, self.theta, pairs, n, yarn(self.c["rope_scaling"], self.theta, n or len(x)))

    def score_scale(self, dim):
        return dim ** -0.5 * (0.1 * math.log(self.c["rope_scaling"]["factor"]) + 1) ** 2


class glm_moe_dsa(Latent):
    """GLM-5's index rotates pairs, and layers marked "shared" take the positions of the layer before (modular_glm_moe_dsa.py)."""
    index, index_pairs, seed, theta = True, True, 29, 1e6
    CONFIG = dict(LATENT, architectures=["GlmMoeDsaForCausalLM"], model_type="glm_moe_dsa", index_head_dim=16,
                  index_n_heads=8, index_topk=9, first_k_dense_replace=1, n_group=1, topk_group=1, ep_size=1,
                  moe_layer_freq=1, num_nextn_predict_layers=1, routed_scaling_factor=2.5, scoring_func="sigmoid",
                  topk_method="noaux_tc", rms_norm_eps=1e-5, num_hidden_layers=4, head_dim=8, rope_interleave=True,
                  indexer_rope_interleave=True, indexer_types=["full", "shared", "full", "shared"],
                  rope_parameters={"rope_theta": 1000000, "rope_type": "default"})

    def has_index(self, i):
        return self.CONFIG["indexer_types"][i] == "full"


class mistral4(Latent):
    """Mistral Small 4 (modular_mistral4.py): experts by softmax, stored in one tensor; queries times Llama 4's temperature; YaRN, which
    does not change the scale of scores."""
    softmax_router, seed = True, 7
    CONFIG = dict(LATENT, architectures=["Mistral4ForCausalLM"], model_type="mistral4", first_k_dense_replace=1, n_group=2,
                  topk_group=1, routed_scaling_factor=1.0, num_experts_per_tok=3, head_dim=24, rope_interleave=True,
                  rope_parameters={"type": "yarn", "rope_type": "yarn", "rope_theta": 10000.0, "factor": 16.0,
                                   "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                                   "original_max_position_embeddings": 16, "max_position_embeddings": 512,
                                   "llama_4_scaling_beta": 0.1, "partial_rotary_factor": 8 / 24})

    def turn(self, x, pairs, n=None):
        return turned(x, self.t, self.theta, pairs, n, yarn(self.c["rope_parameters"], self.theta, n or len(x)))

    def query_factor(self):
        r = self.c["rope_parameters"]
        return 1 + r["llama_4_scaling_beta"] * math.log(1 + self.t // r["original_max_position_embeddings"])

    def stored(self):
        """Weights as files have them: the matrices of all experts in one tensor."""
        out, n = {}, self.CONFIG["n_routed_experts"]
        for name, (shape, v) in self.w.items():
            at = name.split(".experts.")
            if len(at) == 1:
                out[name] = (shape, v)
            elif at[1] == "0.gate_proj.weight":
                both = [self.values(f"{at[0]}.experts.{e}.{p}_proj.weight") for e in range(n) for p in ("gate", "up")]
                out[at[0] + ".experts.gate_up_proj"] = ((n, 2 * shape[0], shape[1]), sum(both, []))
            elif at[1] == "0.down_proj.weight":
                all_of = [self.values(f"{at[0]}.experts.{e}.down_proj.weight") for e in range(n)]
                out[at[0] + ".experts.down_proj"] = ((n, *shape), sum(all_of, []))
        return out


class falcon_rw(Model):
    """Falcon's oldest form (modeling_falcon.py): ALiBi, whose biases are scaled as scores are, one norm before each part, parts one after
    the other, a head of keys and values for each of queries."""
    seed = 7
    CONFIG = {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "alibi": True,
              "apply_residual_connection_post_layernorm": False, "bias": True, "bos_token_id": 1, "eos_token_id": 2,
              "hidden_size": 64, "layer_norm_epsilon": 1e-05, "multi_query": False, "new_decoder_architecture": False,
              "num_attention_heads": 4, "num_hidden_layers": 2, "parallel_attn": False, "torch_dtype": "bfloat16",
              "vocab_size": 160}

    def make(self):
        c = self.CONFIG
        n = c["hidden_size"]
        self.add("transformer.word_embeddings.weight", c["vocab_size"], n)
        for i in range(c["num_hidden_layers"]):
            p = f"transformer.h.{i}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                self.add(p + norm + ".weight", n)
                self.add(p + norm + ".bias", n, bias=True)
            for name, rows, cols in (("self_attention.query_key_value", 3 * n, n), ("self_attention.dense", n, n),
                                     ("mlp.dense_h_to_4h", 4 * n, n), ("mlp.dense_4h_to_h", n, 4 * n)):
                self.add(p + name + ".weight", rows, cols, gain=1.5)
                self.add(p + name + ".bias", rows, bias=True)
        self.add("transformer.ln_f.weight", n)
        self.add("transformer.ln_f.bias", n, bias=True)

    def step(self, token):
        c, eps, x = self.CONFIG, self.CONFIG["layer_norm_epsilon"], self.row("transformer.word_embeddings.weight", token)
        heads = c["num_attention_heads"]
        for i in range(c["num_hidden_layers"]):
            p = f"transformer.h.{i}."
            y = self.layernorm(x, p + "input_layernorm", eps)
            y = heads_of(self.product(p + "self_attention.query_key_value.weight", y), heads)
            y = [split(h, *[len(h) // 3] * 3) for h in y]
            self.cache(p).append(y)
            made, d = [], len(y[0][0])
            for h in range(heads):
                slope = 2 ** (-8 * (h + 1) / heads)
                made += attended(y[h][0], [s[h][1] for s in self.cache(p)], [s[h][2] for s in self.cache(p)],
                                 d ** -0.5, lambda j: slope * j * d ** -0.5)
            x = plus(x, self.product(p + "self_attention.dense.weight", made))
            y = self.layernorm(x, p + "post_attention_layernorm", eps)
            y = [gelu(v) for v in self.product(p + "mlp.dense_h_to_4h.weight", y)]
            x = plus(x, self.product(p + "mlp.dense_4h_to_h.weight", y))
        return self.product("transformer.word_embeddings.weight", self.layernorm(x, "transformer.ln_f", eps))


class opt_350m(Model):
    """OPT's form with norms behind the sums, none at the end, and a narrower embedding (modeling_opt.py)."""
    seed = 12
    CONFIG = {"architectures": ["OPTForCausalLM"], "model_type": "opt", "_remove_final_layer_norm": False,
              "activation_function": "relu", "bos_token_id": 2, "do_layer_norm_before": False, "eos_token_id": 2,
              "ffn_dim": 96, "hidden_size": 64, "max_position_embeddings": 64, "num_attention_heads": 4,
              "num_hidden_layers": 2, "pad_token_id": 1, "prefix": "</s>", "torch_dtype": "bfloat16", "vocab_size": 160,
              "word_embed_proj_dim": 32}

    def make(self):
        c, p = self.CONFIG, "model.decoder."
        n, w = c["hidden_size"], c["word_embed_proj_dim"]
        self.add(p + "embed_tokens.weight", c["vocab_size"], w)
        self.add(p + "embed_positions.weight", c["max_position_embeddings"] + 2, n)
        self.add(p + "project_in.weight", n, w)
        self.add(p + "project_out.weight", w, n)
        for i in range(c["num_hidden_layers"]):
            q = p + f"layers.{i}."
            for norm in ("self_attn_layer_norm", "final_layer_norm"):
                self.add(q + norm + ".weight", n)
                self.add(q + norm + ".bias", n, bias=True)
            for name, rows, cols in (("self_attn.q_proj", n, n), ("self_attn.k_proj", n, n), ("self_attn.v_proj", n, n),
                                     ("self_attn.out_proj", n, n), ("fc1", c["ffn_dim"], n), ("fc2", n, c["ffn_dim"])):
                self.add(q + name + ".weight", rows, cols)
                self.add(q + name + ".bias", rows, bias=True)

    def step(self, token):
        c, p, heads = self.CONFIG, "model.decoder.", self.CONFIG["num_attention_heads"]
        x = self.product(p + "project_in.weight", self.row(p + "embed_tokens.weight", token))
        x = plus(x, self.row(p + "embed_positions.weight", self.t + 2))
        for i in range(c["num_hidden_layers"]):
            q = p + f"layers.{i}."
            made = [heads_of(self.product(q + f"self_attn.{n}_proj.weight", x), heads) for n in "qkv"]
            self.cache(q).append(made)
            y = []
            for h in range(heads):
                y += attended(made[0][h], [m[1][h] for m in self.cache(q)], [m[2][h] for m in self.cache(q)],
                              len(made[0][h]) ** -0.5)
            x = self.layernorm(plus(x, self.product(q + "self_attn.out_proj.weight", y)), q + "self_attn_layer_norm", 1e-5)
            y = [max(v, 0.0) for v in self.product(q + "fc1.weight", x)]
            x = self.layernorm(plus(x, self.product(q + "fc2.weight", y)), q + "final_layer_norm", 1e-5)
        return self.product(p + "embed_tokens.weight", self.product(p + "project_out.weight", x))


class zamba2_adapted(Model):
    """Zamba2-1.2B's form (modular_zamba2.py): Mamba-2, and a shared block whose q, k, v, gate and up have adapters for each layer."""
    seed = 6
    CONFIG = {"architectures": ["Zamba2ForCausalLM"], "model_type": "zamba2", "add_bias_linear": False, "adapter_rank": 8,
              "attention_head_dim": 24, "attention_hidden_size": 96, "bos_token_id": 1, "chunk_size": 16, "eos_token_id": 2,
              "hidden_act": "gelu", "hidden_size": 48, "hybrid_layer_ids": [1, 2, 4], "intermediate_size": 80,
              "kv_channels": 12, "layers_block_type": ["mamba", "hybrid", "hybrid", "mamba", "hybrid"], "mamba_d_conv": 4,
              "mamba_d_state": 16, "mamba_expand": 2, "mamba_headdim": 16, "mamba_ngroups": 1,
              "max_position_embeddings": 512, "n_mamba_heads": 6, "num_attention_heads": 4, "num_hidden_layers": 5,
              "num_key_value_heads": 4, "num_mem_blocks": 1, "rms_norm_eps": 1e-05, "rope_theta": 10000,
              "tie_word_embeddings": True, "time_step_floor": 0.0001, "time_step_max": 0.1, "time_step_min": 0.001,
              "torch_dtype": "bfloat16", "use_conv_bias": True, "use_long_context": False, "use_mem_rope": True,
              "use_shared_attention_adapter": True, "use_shared_mlp_adapter": True, "vocab_size": 160}
    SHARED = "model.layers.1.shared_transformer."

    def make(self):
        c = self.CONFIG
        n, wide, rank = c["hidden_size"], 2 * c["hidden_size"], c["adapter_rank"]
        inner, state, heads = c["mamba_expand"] * n, c["mamba_d_state"], c["n_mamba_heads"]
        self.add("model.embed_tokens.weight", c["vocab_size"], n)
        self.add("model.final_layernorm.weight", n)
        for i, kind in enumerate(c["layers_block_type"]):
            p = f"model.layers.{i}."
            if kind == "hybrid":
                self.add(p + "linear.weight", n, n)
                p += "mamba_decoder."
            self.add(p + "input_layernorm.weight", n)
            self.add(p + "mamba.in_proj.weight", 2 * inner + 2 * state + heads, n)
            self.add(p + "mamba.conv1d.weight", inner + 2 * state, 1, c["mamba_d_conv"], gain=2)
            self.add(p + "mamba.conv1d.bias", inner + 2 * state, bias=True)
            for name in ("A_log", "D", "dt_bias"):
                self.add(p + "mamba." + name, heads)
            self.add(p + "mamba.norm.weight", inner)
            self.add(p + "mamba.out_proj.weight", n, inner)
        s = self.SHARED
        self.add(s + "input_layernorm.weight", wide)
        self.add(s + "pre_ff_layernorm.weight", n)
        for name in ("q", "k", "v"):
            self.add(s + f"self_attn.{name}_proj.weight", wide, wide)
        self.add(s + "self_attn.o_proj.weight", n, wide)
        self.add(s + "feed_forward.gate_up_proj.weight", 2 * c["intermediate_size"], n)
        self.add(s + "feed_forward.down_proj.weight", n, c["intermediate_size"])
        for k in range(len(c["hybrid_layer_ids"])):
            for name in ("q", "k", "v"):
                self.add(s + f"self_attn.linear_{name}_adapter_list.{k}.0.weight", rank, wide)
                self.add(s + f"self_attn.linear_{name}_adapter_list.{k}.1.weight", wide, rank)
            self.add(s + f"feed_forward.gate_up_proj_adapter_list.{k}.0.weight", rank, n)
            self.add(s + f"feed_forward.gate_up_proj_adapter_list.{k}.1.weight", 2 * c["intermediate_size"], rank)

    def adapted(self, name, adapter, k, x):
        low = self.product(self.SHARED + f"{adapter}_adapter_list.{k}.0.weight", x)
        return plus(self.product(self.SHARED + name + ".weight", x),
                    self.product(self.SHARED + f"{adapter}_adapter_list.{k}.1.weight", low))

    def shared(self, i, x, first):
        c, s, k = self.CONFIG, self.SHARED, self.CONFIG["hybrid_layer_ids"].index(i)
        y = self.rms(x + first, s + "input_layernorm", c["rms_norm_eps"])
        heads, d = c["num_attention_heads"], c["attention_head_dim"]
        made = [heads_of(self.adapted(f"self_attn.{n}_proj", f"self_attn.linear_{n}", k, y), heads) for n in "qkv"]
        q, key = [[turned(h, self.t, c["rope_theta"], False) for h in part] for part in made[:2]]
        self.cache(i).append((key, made[2]))
        y = []
        for h in range(heads):
            y += attended(q[h], [m[0][h] for m in self.cache(i)], [m[1][h] for m in self.cache(i)], (d / 2) ** -0.5)
        y = self.rms(self.product(s + "self_attn.o_proj.weight", y), s + "pre_ff_layernorm", c["rms_norm_eps"])
        gate, up = heads_of(self.adapted("feed_forward.gate_up_proj", "feed_forward.gate_up_proj", k, y), 2)
        y = self.product(s + "feed_forward.down_proj.weight", times([gelu(g) for g in gate], up))
        return self.product(f"model.layers.{i}.linear.weight", y)

    def mamba(self, p, x):
        c, inner, n = self.CONFIG, self.CONFIG["mamba_expand"] * self.CONFIG["hidden_size"], self.CONFIG["mamba_d_state"]
        heads, d, taps = c["n_mamba_heads"], c["mamba_headdim"], c["mamba_d_conv"]
        z, mixed, dt = split(self.product(p + "in_proj.weight", x), inner, inner + 2 * n, heads)
        past = self.cache(p + "conv")
        past.append(mixed)
        w, y = self.values(p + "conv1d.weight"), []
        for j in range(len(mixed)):
            rows = [past[-1 - k][j] if k < len(past) else 0.0 for k in range(taps)]
            y.append(silu(sum(w[j * taps + taps - 1 - k] * rows[k] for k in range(taps)) + self.values(p + "conv1d.bias")[j]))
        v, key, query = split(y, inner, n, n)
        state = self.caches.setdefault(p + "state", [[0.0] * n for _ in range(inner)])
        out = []
        for h in range(heads):
            step = max(math.log1p(math.exp(dt[h] + self.values(p + "dt_bias")[h])), c["time_step_min"])
            fade = math.exp(-step * math.exp(self.values(p + "A_log")[h]))
            for r in range(h * d, (h + 1) * d):
                state[r] = [fade * s + step * v[r] * k for s, k in zip(state[r], key)]
                out.append(dot(state[r], query) + self.values(p + "D")[h] * v[r])
        return self.product(p + "out_proj.weight", self.rms(times(out, [silu(g) for g in z]), p + "norm", 1e-5))

    def step(self, token):
        c, x = self.CONFIG, self.row("model.embed_tokens.weight", token)
        first = x
        for i, kind in enumerate(c["layers_block_type"]):
            p, y = f"model.layers.{i}.", x
            if kind == "hybrid":
                y = plus(x, self.shared(i, x, first))
                p += "mamba_decoder."
            x = plus(x, self.mamba(p + "mamba.", self.rms(y, p + "input_layernorm", c["rms_norm_eps"])))
        return self.product("model.embed_tokens.weight", self.rms(x, "model.final_layernorm", c["rms_norm_eps"]))


class Llama(Model):
    """Llama's layers, as families vary them: names of tensors, rotated part, biases, factors, norms of heads, experts."""
    names, pairs, partial, bias, eps, embed_by, part_by, logit_by = {}, False, 1.0, (), 1e-6, 1.0, 1.0, 1.0
    prefix, layer, head_norms, embed, output, last = "model.", "layers.", False, "embed_tokens", "lm_head", "norm"
    q, k, v, o = (f"self_attn.{n}_proj" for n in "qkvo")
    gate, up, down = (f"mlp.{n}_proj" for n in ("gate", "up", "down"))
    norm1, norm2 = "input_layernorm", "post_attention_layernorm"

    def sizes(self):
        c = self.CONFIG
        return (c["hidden_size"], c["num_attention_heads"], c.get("num_key_value_heads", c["num_attention_heads"]),
                c.get("head_dim", c["hidden_size"] // c["num_attention_heads"]), c.get("num_layers", c.get("num_hidden_layers")))

    def make(self):
        c, (n, heads, kv, d, layers) = self.CONFIG, self.sizes()
        self.add(self.prefix + self.embed + ".weight", c["vocab_size"], n)
        self.add(self.prefix + self.last + ".weight", n)
        self.add(self.output + ".weight", c["vocab_size"], n)
        for i in range(layers):
            p = f"{self.prefix}{self.layer}{i}."
            for name in (self.norm1, self.norm2):
                self.add(p + name + ".weight", n)
            for name, rows, cols in ((self.q, heads * d, n), (self.k, kv * d, n), (self.v, kv * d, n), (self.o, n, heads * d)):
                self.add(p + name + ".weight", rows, cols, gain=1.5)
                if name in self.bias:
                    self.add(p + name + ".bias", rows, bias=True)
            if self.head_norms:
                self.add(p + self.head_norms[0] + ".weight", d)
                self.add(p + self.head_norms[1] + ".weight", d)
            self.make_ffn(p, i)

    def make_ffn(self, p, i):
        n, m = self.CONFIG["hidden_size"], self.CONFIG["intermediate_size"]
        for name, rows, cols in ((self.gate, m, n), (self.up, m, n), (self.down, n, m)):
            self.add(p + name + ".weight", rows, cols)

    def gated(self, gate, up, down, x):
        return self.product(down, times([silu(g) for g in self.product(gate, x)], self.product(up, x)))

    def ffn(self, p, i, x):
        return self.gated(p + self.gate + ".weight", p + self.up + ".weight", p + self.down + ".weight", x)

    def step(self, token):
        n, heads, kv, d, layers = self.sizes()
        x = [v * self.embed_by for v in self.row(self.prefix + self.embed + ".weight", token)]
        for i in range(layers):
            p = f"{self.prefix}{self.layer}{i}."
            y = self.rms(x, p + self.norm1, self.eps)
            q, k, v = (heads_of(self.product(p + name + ".weight", y), h)
                       for name, h in ((self.q, heads), (self.k, kv), (self.v, kv)))
            if self.head_norms:
                q = [self.rms(h, p + self.head_norms[0], self.eps) for h in q]
                k = [self.rms(h, p + self.head_norms[1], self.eps) for h in k]
            turn = int(d * self.partial)
            q, k = ([turned(h, self.t, self.CONFIG["rope_theta"], self.pairs, turn) for h in part] for part in (q, k))
            self.cache(p).append((k, v))
            y = []
            for h in range(heads):
                g = h // (heads // kv)
                y += attended(q[h], [s[0][g] for s in self.cache(p)], [s[1][g] for s in self.cache(p)], d ** -0.5)
            x = plus(x, [self.part_by * v for v in self.product(p + self.o + ".weight", y)])
            y = self.ffn(p, i, self.rms(x, p + self.norm2, self.eps))
            x = plus(x, [self.part_by * v for v in y])
        x = [v * self.logit_by for v in self.rms(x, self.prefix + self.last, self.eps)]
        return self.product(self.output + ".weight", x)

    def joined(self, into, parts, suffix=".weight"):
        """Weights as files have them: `parts` of each layer are one tensor `into`, its rows in the order that order() gives."""
        out = dict(self.stored_so_far)
        for i in range(self.sizes()[4]):
            p = f"{self.prefix}{self.layer}{i}."
            if p + parts[0] + suffix not in out:
                continue
            tensors = [out.pop(p + name + suffix) for name in parts]
            cols = tensors[0][0][1] if suffix == ".weight" else 1
            rows = [[v[r * cols:(r + 1) * cols] for r in range(len(v) // cols)] for _, v in tensors]
            all_rows = self.order(rows)
            shape = (len(all_rows), cols) if suffix == ".weight" else (len(all_rows),)
            out[p + into + suffix] = (shape, sum(all_rows, []))
        self.stored_so_far = out

    def order(self, rows):
        return sum(rows, [])


LLAMA = {"bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 48, "intermediate_size": 96,
         "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
         "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
         "vocab_size": 128}


class minicpm(Llama):
    """MiniCPM 1, 2 and 4 (modeling_minicpm.py of openbmb/MiniCPM-2B-sft-bf16)."""
    seed, embed_by, part_by, logit_by = 1, 12.0, 1.4 / math.sqrt(2), 32 / 48
    CONFIG = dict(LLAMA, architectures=["MiniCPMForCausalLM"], model_type="minicpm", scale_emb=12, scale_depth=1.4,
                  dim_model_base=32)


class glm(Llama):
    """GLM-4-9B (modeling_glm.py): a part of each head rotates, in pairs; biases of q, k and v; gate and up in one tensor."""
    seed, pairs, partial, eps = 1, True, 0.5, 1.5625e-07
    bias = (Llama.q, Llama.k, Llama.v)
    CONFIG = dict(LLAMA, architectures=["GlmForCausalLM"], model_type="glm", attention_bias=True, head_dim=16,
                  partial_rotary_factor=0.5, rms_norm_eps=1.5625e-07)

    def stored(self):
        self.stored_so_far = self.w
        self.joined("mlp.gate_up_proj", (self.gate, self.up))
        return self.stored_so_far


class internlm2(Llama):
    """InternLM 2 (modeling_internlm2.py): queries of a group, its key and its value beside each other in one tensor."""
    seed, embed, output, norm1, norm2 = 1, "tok_embeddings", "output", "attention_norm", "ffn_norm"
    o, gate, up, down = "attention.wo", "feed_forward.w1", "feed_forward.w3", "feed_forward.w2"
    CONFIG = dict(LLAMA, architectures=["InternLM2ForCausalLM"], model_type="internlm2", bias=False,
                  rope_scaling={"type": "dynamic", "factor": 2.0})

    def order(self, rows):
        q, k, v = rows
        _, heads, kv, d, _ = self.sizes()
        each, out = heads // kv * d, []
        for g in range(kv):
            out += q[g * each:(g + 1) * each] + k[g * d:(g + 1) * d] + v[g * d:(g + 1) * d]
        return out

    def stored(self):
        self.stored_so_far = self.w
        self.joined("attention.wqkv", (self.q, self.k, self.v))
        return self.stored_so_far


class exaone(Llama):
    """EXAONE 3.5 (modeling_exaone.py of LGAI-EXAONE/EXAONE-3.5-2.4B-Instruct): Llama's layers under other names."""
    seed, prefix, layer, embed, last, norm1, norm2, eps = 1, "transformer.", "h.", "wte", "ln_f", "ln_1", "ln_2", 1e-5
    q, k, v, o = (f"attn.attention.{n}_proj" for n in ("q", "k", "v", "out"))
    gate, up, down = "mlp.c_fc_0", "mlp.c_fc_1", "mlp.c_proj"
    CONFIG = {k: v for k, v in dict(LLAMA, architectures=["ExaoneForCausalLM"], model_type="exaone", num_layers=2,
                                    activation_function="silu", layer_norm_epsilon=1e-05, head_dim=12).items()
              if k not in ("num_hidden_layers", "hidden_act", "rms_norm_eps")}


class Mixed(Llama):
    """Llama's layers with experts, of which the first layers have none."""
    sigmoid_router = False

    def make_ffn(self, p, i):
        c = self.CONFIG
        if i < c["first_k_dense_replace"]:
            return super().make_ffn(p, i)
        n, width = c["hidden_size"], c["moe_intermediate_size"]
        self.add(p + "mlp.gate.weight", self.n_experts(), n, gain=2)
        if self.sigmoid_router:
            self.add(p + "mlp.gate.expert_bias", self.n_experts(), bias=True)
        for e in range(self.n_experts()):
            for name, rows, cols in (("gate", width, n), ("up", width, n), ("down", n, width)):
                self.add(p + f"mlp.experts.{e}.{name}_proj.weight", rows, cols)
        for name, rows, cols in (("gate", 1, n), ("up", 1, n), ("down", n, 1)):
            self.add(p + f"mlp.shared_experts.{name}_proj.weight", *(r * (self.n_shared() * width if r == 1 else 1)
                                                                   for r in (rows, cols)))

    def expert(self, p, x):
        return self.gated(p + "gate_proj.weight", p + "up_proj.weight", p + "down_proj.weight", x)

    def ffn(self, p, i, x):
        c = self.CONFIG
        if i < c["first_k_dense_replace"]:
            return super().ffn(p, i, x)
        logits = self.product(p + "mlp.gate.weight", x)
        scores = [sigmoid(s) for s in logits] if self.sigmoid_router else softmax(logits)
        by = plus(scores, self.values(p + "mlp.gate.expert_bias")) if self.sigmoid_router else scores
        groups = heads_of(by, c.get("n_group", 1))
        worth = [sum(sorted(g, reverse=True)[:2]) for g in groups]
        self.gap(worth, c.get("topk_group", 1))
        kept = sorted(range(len(groups)), key=lambda g: -worth[g])[:c.get("topk_group", 1)]
        open_to = [e for e in range(len(by)) if e // len(groups[0]) in kept]
        self.gap([by[e] for e in open_to], c["num_experts_per_tok"])
        best = sorted(open_to, key=lambda e: -by[e])[:c["num_experts_per_tok"]]
        total = sum(scores[e] for e in best) if c["norm_topk_prob"] else 1.0
        y = self.expert(p + "mlp.shared_experts.", x)
        for e in best:
            by_score = scores[e] / total * c.get("routed_scaling_factor", 1.0)
            y = [a + by_score * b for a, b in zip(y, self.expert(p + f"mlp.experts.{e}.", x))]
        return y


class deepseek(Mixed):
    """DeepSeekMoE 16B (modeling_deepseek.py of deepseek-ai/deepseek-moe-16b-base)."""
    seed = 1
    CONFIG = dict(LLAMA, architectures=["DeepseekForCausalLM"], model_type="deepseek", first_k_dense_replace=1,
                  moe_layer_freq=1, n_routed_experts=8, n_shared_experts=2, num_experts_per_tok=3, norm_topk_prob=False,
                  moe_intermediate_size=24, scoring_func="softmax", attention_bias=False)

    def n_experts(self):
        return self.CONFIG["n_routed_experts"]

    def n_shared(self):
        return self.CONFIG["n_shared_experts"]


class bailing_moe(Mixed):
    """Ling 2.0 (modeling_bailing_moe_v2.py of inclusionAI/Ling-mini-2.0)."""
    seed, sigmoid_router, partial, embed, o = 1, True, 0.5, "word_embeddings", "attention.dense"
    head_norms = ("attention.query_layernorm", "attention.key_layernorm")
    CONFIG = dict(LLAMA, architectures=["BailingMoeV2ForCausalLM"], model_type="bailing_moe", first_k_dense_replace=1,
                  num_experts=8, num_shared_experts=1, num_experts_per_tok=2, n_group=4, topk_group=2, norm_topk_prob=True,
                  routed_scaling_factor=2.5, moe_intermediate_size=24, moe_router_enable_expert_bias=True, head_dim=16,
                  score_function="sigmoid", use_qk_norm=True, use_qkv_bias=False, use_bias=False, use_rmsnorm=True,
                  partial_rotary_factor=0.5, num_nextn_predict_layers=0)

    def n_experts(self):
        return self.CONFIG["num_experts"]

    def n_shared(self):
        return self.CONFIG["num_shared_experts"]

    def stored(self):
        self.stored_so_far = self.w
        self.joined("attention.query_key_value", (self.q, self.k, self.v))
        return self.stored_so_far


def main():
    case = sys.argv[1]
    folder = sys.argv[2] if len(sys.argv) > 2 else os.path.join(os.path.dirname(os.path.abspath(__file__)), case)
    model = globals()[case]()
    logits, greedy, margins = model.run()
    if model.near < model.ties:
        sys.exit(f"{case}: a choice is only {model.near:.2g} from another one; take another seed")
    model.save(case, folder, logits, greedy, margins)
    print(f"{case}: nearest choice {model.near:.2g}, least margin {min(margins):.3g}, of {len(set(greedy))} tokens")


if __name__ == "__main__":
    main()
