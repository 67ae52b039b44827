#!/usr/bin/env python3
"""Drafters that read their model's caches (Gemma 4's assistant): makes a small model and a drafter for it, and computes what it drafts by
formula, in double precision, without any code of this project.

    assistant.py make FOLDER [KEY=VALUE ...]     FOLDER/model and FOLDER/drafter, or FOLDER/drafter.gguf
    assistant.py check FOLDER HEADS.json         compares with what tests/tools/heads printed

Keys: seed; layout: hf or gguf; layers: of the drafter, one letter each, s(liding) or f(ull); own: layers of the model that have keys and
values of their own, 0: all; inputs: width of the model's per-layer inputs; same: 0 or 1, values of full layers are keys; clusters: 0 or 1,
the drafter's files have clusters of tokens; head: 0 or 1, the drafter's output matrix is not its embedding; real: 1: each token of the model
has one successor, which the drafter knows of most tokens; more: fields of the drafter's text_config, as JSON.

Formulas: transformers, modeling_gemma4.py, modeling_gemma4_assistant.py, and SinglePositionMultiTokenCandidateGenerator of
candidate_generator.py: position p + 1 is that of the queries, and the keys are those up to position p, of the last layer of the kind that has
any (vllm/v1/spec_decode/gemma4.py)."""
import json
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
from reference import Model, attended, halves, heads_of, plus, times, write
from eagle import far

KEYS = dict(seed=1, layout="hf", layers="ssf", own=0, inputs=0, same=0, clusters=0, head=0, real=0, more="{}")
KINDS = {"s": "sliding_attention", "f": "full_attention"}
EPS, WINDOW, THETA = 1e-6, 9, {"s": 1e4, "f": 1e6}


def gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def turned(x, position, kind):
    """In full layers a quarter of the head turns, by frequencies of the whole head."""
    d, out = len(x), list(x)
    for j in range(d // 2 if kind == "s" else d // 8):
        angle = position * THETA[kind] ** (-2 * j / d)
        a, b = x[j], x[j + d // 2]
        out[j], out[j + d // 2] = a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)
    return out


class Gemma(Model):
    """What the model and its drafter have in common."""
    dims = {"s": 16, "f": 32}

    def __init__(self, keys):
        self.keys, self.kvs = keys, {"s": 2, "f": 1 if keys["same"] else 2}
        super().__init__()

    def norm(self, x, name=None):
        k = (sum(v * v for v in x) / len(x) + EPS) ** -0.5
        return [v * k for v in x] if name is None else [v * k * w for v, w in zip(x, self.values(name + ".weight"))]

    def add_layer(self, p, n, heads, ffn, kind):
        d = self.dims[kind]
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            self.add(p + name + ".weight", n)
        self.add(p + "self_attn.q_proj.weight", heads * d, n)
        self.add(p + "self_attn.o_proj.weight", n, heads * d)
        self.add(p + "self_attn.q_norm.weight", d)
        for name, rows, cols in (("gate", ffn, n), ("up", ffn, n), ("down", n, ffn)):
            self.add(p + f"mlp.{name}_proj.weight", rows, cols)
        self.add(p + "layer_scalar", 1)

    def attention(self, p, x, kind, position, seen, heads):
        kv, y = self.kvs[kind], []
        q = [turned(self.norm(h, p + "q_norm"), position, kind) for h in heads_of(self.product(p + "q_proj.weight", x), heads)]
        for h in range(heads):
            g = h // (heads // kv)
            y += attended(q[h], [k[g] for k, _ in seen], [v[g] for _, v in seen], 1.0)
        return self.product(p + "o_proj.weight", y)

    def ffn(self, p, x):
        y = self.norm(x, p + "pre_feedforward_layernorm")
        y = times([gelu(g) for g in self.product(p + "mlp.gate_proj.weight", y)], self.product(p + "mlp.up_proj.weight", y))
        return plus(x, self.norm(self.product(p + "mlp.down_proj.weight", y), p + "post_feedforward_layernorm"))


class Target(Gemma):
    n, heads, ffn_width, kinds, size, prompt = 48, 4, 64, "ssfsf", 96, 1

    def __init__(self, keys):
        self.seed, self.own, self.CONFIG = keys["seed"], keys["own"] or len(self.kinds), {"vocab_size": self.size}
        super().__init__(keys)

    def source(self, kind):
        """The last layer of a kind that has keys and values."""
        return max(i for i in range(self.own) if self.kinds[i] == kind)

    def config(self):
        k = self.keys
        return {"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "attention_bias": False,
                "attention_k_eq_v": bool(k["same"]), "bos_token_id": 1, "dtype": "bfloat16", "enable_moe_block": False, "eos_token_id": 2,
                "final_logit_softcapping": None, "global_head_dim": self.dims["f"], "head_dim": self.dims["s"],
                "hidden_activation": "gelu_pytorch_tanh", "hidden_size": self.n, "hidden_size_per_layer_input": k["inputs"],
                "intermediate_size": self.ffn_width, "layer_types": [KINDS[c] for c in self.kinds], "max_position_embeddings": 512,
                "num_attention_heads": self.heads, "num_global_key_value_heads": self.kvs["f"], "num_hidden_layers": len(self.kinds),
                "num_key_value_heads": self.kvs["s"], "num_kv_shared_layers": len(self.kinds) - self.own, "pad_token_id": 0,
                "rms_norm_eps": EPS, "rope_parameters": ROPES, "sliding_window": WINDOW, "tie_word_embeddings": not k["real"],
                "use_cache": True, "use_double_wide_mlp": False, "vocab_size": self.size, "vocab_size_per_layer_input": self.size}

    def make(self):
        n, wide = self.n, self.keys["inputs"]
        self.add("model.embed_tokens.weight", self.size, n)
        self.add("model.norm.weight", n)
        if wide:
            self.add("model.embed_tokens_per_layer.weight", self.size, len(self.kinds) * wide)
            self.add("model.per_layer_model_projection.weight", len(self.kinds) * wide, n)
            self.add("model.per_layer_projection_norm.weight", wide)
        for i, kind in enumerate(self.kinds):
            p, d, kv = f"model.layers.{i}.", self.dims[kind], self.kvs[kind]
            self.add_layer(p, n, self.heads, self.ffn_width, kind)
            if i < self.own:
                self.add(p + "self_attn.k_proj.weight", kv * d, n)
                self.add(p + "self_attn.k_norm.weight", d)
                if kind == "s" or not self.keys["same"]:
                    self.add(p + "self_attn.v_proj.weight", kv * d, n)
            if wide:
                self.add(p + "per_layer_input_gate.weight", wide, n)
                self.add(p + "per_layer_projection.weight", n, wide)
                self.add(p + "post_per_layer_input_norm.weight", n)
        if self.keys["real"]:
            self.make_real()

    def make_real(self):
        """Layers that change little, and an output matrix with the row of each token's embedding at its successor."""
        for name in [k for k in self.w if k.endswith("layernorm.weight") and "post_" in k]:
            self.w[name] = (self.w[name][0], [0.01] * self.n)
        for i in range(len(self.kinds)):
            self.w[f"model.layers.{i}.layer_scalar"] = ((1,), [1.0])
        order = list(range(self.size))
        random.shuffle(order)
        self.after = {order[i - 1]: order[i] for i in range(self.size)}
        rows = {self.after[t]: self.row("model.embed_tokens.weight", t) for t in range(self.size)}
        self.w["lm_head.weight"] = ((self.size, self.n), sum((rows[t] for t in range(self.size)), []))
        self.w["model.norm.weight"] = ((self.n,), [1.0] * self.n)

    def embedded(self, token):
        scale = math.sqrt(self.n)
        return [v * scale for v in self.row("model.embed_tokens.weight", token)]

    def inputs(self, token, x):
        wide, n = self.keys["inputs"], len(self.kinds)
        own = [v * math.sqrt(wide) for v in self.row("model.embed_tokens_per_layer.weight", token)]
        made = [v * self.n ** -0.5 for v in self.product("model.per_layer_model_projection.weight", x)]
        made = [self.norm(h, "model.per_layer_projection_norm") for h in heads_of(made, n)]
        return [[(a + b) * 2 ** -0.5 for a, b in zip(h, o)] for h, o in zip(made, heads_of(own, n))]

    def cached(self, i, kind):
        return self.cache(i if i < self.own else self.source(kind))

    def hidden(self, token):
        x = self.embedded(token)
        inputs = self.inputs(token, x) if self.keys["inputs"] else None
        for i, kind in enumerate(self.kinds):
            p, kv = f"model.layers.{i}.", self.kvs[kind]
            y, a = self.norm(x, p + "input_layernorm"), p + "self_attn."
            if i < self.own:
                made = heads_of(self.product(a + "k_proj.weight", y), kv)
                keys = [turned(self.norm(h, a + "k_norm"), self.t, kind) for h in made]
                if self.has(a + "v_proj.weight"):
                    made = heads_of(self.product(a + "v_proj.weight", y), kv)
                self.cache(i).append((keys, [self.norm(h) for h in made]))
            seen = self.cached(i, kind)
            y = self.attention(a, y, kind, self.t, seen[-WINDOW:] if kind == "s" else seen, self.heads)
            x = self.ffn(p, plus(x, self.norm(y, p + "post_attention_layernorm")))
            if inputs:
                y = times([gelu(g) for g in self.product(p + "per_layer_input_gate.weight", x)], inputs[i])
                x = plus(x, self.norm(self.product(p + "per_layer_projection.weight", y), p + "post_per_layer_input_norm"))
            x = [v * self.values(p + "layer_scalar")[0] for v in x]
        self.t += 1
        return self.norm(x, "model.norm")


class Drafter(Gemma):
    heads, ffn_width, prompt = 4, 40, 1

    def __init__(self, keys, target):
        self.target, self.seed, self.kinds, self.CONFIG = target, keys["seed"] + 1000, keys["layers"], target.CONFIG
        self.n = target.n if keys["real"] else 32
        super().__init__(keys)

    def make(self):
        n, big = self.n, self.target.n
        self.add("model.embed_tokens.weight", self.target.size, n)
        self.add("model.norm.weight", n)
        self.add("pre_projection.weight", n, 2 * big)
        self.add("post_projection.weight", big, n)
        if self.keys["head"]:
            self.add("lm_head.weight", self.target.size, n)
        for i, kind in enumerate(self.kinds):
            self.add_layer(f"model.layers.{i}.", n, self.heads, self.ffn_width, kind)
        if self.keys["real"]: # it passes the token's embedding on, and knows the successors of four tokens in five
            for name in [k for k in self.w if k.endswith("layernorm.weight") and "post_" in k]:
                self.w[name] = (self.w[name][0], [0.01] * n)
            for i in range(len(self.kinds)):
                self.w[f"model.layers.{i}.layer_scalar"] = ((1,), [1.0])
            self.w["model.norm.weight"] = ((n,), [1.0] * n)
            self.w["pre_projection.weight"] = ((n, 2 * big), [1.0 if r == c else 0.0 for r in range(n) for c in range(2 * big)])
            head = list(self.target.values("lm_head.weight"))
            for t in range(0, self.target.size, 5):
                head[t * n:(t + 1) * n] = [0.0] * n
            self.w["model.embed_tokens.weight"] = ((self.target.size, n), head)

    def step(self, token, hidden, position):
        """The hidden state of the next token, and logits; position: how many positions the caches have, which is the token's."""
        x = self.product("pre_projection.weight", self.target.embedded(token) + hidden)
        for i, kind in enumerate(self.kinds):
            p = f"model.layers.{i}."
            seen = self.target.cache(self.target.source(kind))
            y = self.attention(p + "self_attn.", self.norm(x, p + "input_layernorm"), kind, position,
                               seen[-WINDOW:] if kind == "s" else seen, self.heads)
            x = self.ffn(p, plus(x, self.norm(y, p + "post_attention_layernorm")))
            x = [v * self.values(p + "layer_scalar")[0] for v in x]
        x = self.norm(x, "model.norm")
        head = "lm_head.weight" if self.keys["head"] else "model.embed_tokens.weight"
        return self.product("post_projection.weight", x), self.product(head, x)

    # --- files

    def config(self):
        t = self.target
        text = dict(t.config(), architectures=None, hidden_size=self.n, intermediate_size=self.ffn_width,
                    num_attention_heads=self.heads, num_hidden_layers=len(self.kinds), num_kv_shared_layers=len(self.kinds),
                    layer_types=[KINDS[c] for c in self.kinds], hidden_size_per_layer_input=0, vocab_size_per_layer_input=0,
                    tie_word_embeddings=not self.keys["head"])
        return {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant", "backbone_hidden_size": t.n,
                "use_ordered_embeddings": bool(self.keys["clusters"]), "num_centroids": 8, "centroid_intermediate_top_k": 2,
                "tie_word_embeddings": not self.keys["head"], "dtype": "bfloat16",
                "text_config": dict(text, **json.loads(self.keys["more"]))}

    def save(self, folder):
        os.makedirs(folder, exist_ok=True)
        tensors = halves(self.w)
        if self.keys["clusters"]:
            size = self.target.size
            tensors["masked_embedding.centroids.weight"] = ("BF16", (8, self.n), bytes(2 * 8 * self.n))
            tensors["masked_embedding.token_ordering"] = ("I64", (size,), struct.pack(f"<{size}q", *range(size)))
        write(folder + "/model.safetensors", tensors)
        with open(folder + "/config.json", "w") as f:
            json.dump(self.config(), f, indent=1)

    def save_gguf(self, path):
        """As llama.cpp's converter writes it (conversion/gemma.py, Gemma4AssistantModel)."""
        inside = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
                  "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm", "self_attn.q_proj": "attn_q",
                  "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "mlp.gate_proj": "ffn_gate",
                  "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "layer_scalar": "layer_output_scale"}
        outside = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "pre_projection": "nextn.pre_projection",
                   "post_projection": "nextn.post_projection", "lm_head": "output"}

        def text(s):
            return struct.pack("<Q", len(s)) + s.encode()

        def u32(key, v):
            return text(e + key) + struct.pack("<II", 4, v)

        def f32(key, v):
            return text(e + key) + struct.pack("<If", 6, v)

        def array(key, kind, form, v):
            return text(e + key) + struct.pack(f"<IIQ{len(v)}{form}", 9, kind, len(v), *v)

        e, n = "gemma4-assistant.", len(self.kinds)
        keys = [text("general.architecture") + struct.pack("<I", 8) + text("gemma4-assistant"), u32("block_count", n),
                u32("context_length", 512), u32("embedding_length", self.n), u32("embedding_length_out", self.target.n),
                u32("feed_forward_length", self.ffn_width), u32("attention.head_count", self.heads),
                array("attention.head_count_kv", 5, "i", [self.kvs[c] for c in self.kinds]),
                f32("attention.layer_norm_rms_epsilon", EPS), u32("attention.key_length", self.dims["f"]),
                u32("attention.value_length", self.dims["f"]), u32("attention.key_length_swa", self.dims["s"]),
                u32("attention.value_length_swa", self.dims["s"]), u32("attention.sliding_window", WINDOW),
                array("attention.sliding_window_pattern", 7, "B", [c == "s" for c in self.kinds]),
                u32("attention.shared_kv_layers", n), u32("embedding_length_per_layer_input", 0), u32("nextn_predict_layers", n),
                f32("rope.freq_base", THETA["f"]), f32("rope.freq_base_swa", THETA["s"]), u32("rope.dimension_count", self.dims["f"]),
                u32("rope.dimension_count_swa", self.dims["s"])]
        half = self.dims["f"] // 2
        tensors = [("rope_freqs.weight", (half,), struct.pack(f"<{half}f", *([1.0] * (half // 4) + [1e30] * (half - half // 4))))]
        for name, (shape, v) in self.w.items():
            short = name[:-len(".weight")] if name.endswith(".weight") else name
            if short.startswith("model.layers."):
                layer, short = short[len("model.layers."):].split(".", 1)
                named = f"blk.{layer}.{inside[short]}.weight"
            else:
                named = outside[short] + ".weight"
            tensors.append((named, shape[::-1], struct.pack(f"<{len(v)}f", *v)))
        head, data = b"", b""
        for name, shape, raw in tensors:
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
            data += raw + b"\0" * (-len(raw) % 32)
        head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(keys)) + b"".join(keys) + head
        with open(path, "wb") as f:
            f.write(head + b"\0" * (-len(head) % 32) + data)


ROPES = {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": THETA["f"], "rope_type": "proportional"},
         "sliding_attention": {"rope_theta": THETA["s"], "rope_type": "default"}}


def made(folder, texts=None):
    """The model and the drafter of a folder; texts: new keys."""
    keys = dict(KEYS)
    if texts is None:
        with open(folder + "/keys.json") as f:
            keys = json.load(f)
    for t in texts or []:
        key, value = t.split("=", 1)
        keys[key] = type(KEYS[key])(value)
    target = Target(keys)
    return keys, target, Drafter(keys, target)


def make(folder, texts):
    keys, target, drafter = made(folder, texts)
    os.makedirs(folder + "/model", exist_ok=True)
    with open(folder + "/keys.json", "w") as f:
        json.dump(keys, f)
    write(folder + "/model/model.safetensors", halves(target.w))
    with open(folder + "/model/config.json", "w") as f:
        json.dump(target.config(), f, indent=1)
    if keys["layout"] == "gguf":
        drafter.save_gguf(folder + "/drafter.gguf")
    else:
        drafter.save(folder + "/drafter")


def check(folder, path):
    _, target, drafter = made(folder)
    with open(path) as f:
        out = json.load(f)
    ids, size, worst, hidden = list(out["tokens"]), target.n, 0, None
    for i, token in enumerate(ids[:-1]):
        hidden = target.hidden(token)
        worst = max(worst, far(out["hidden"][i * size:(i + 1) * size], hidden, f"hidden state {i}", 5e-3))
    token = ids[-1]
    for k, draft in enumerate(out["ids"], 1):
        hidden, logits = drafter.step(token, hidden, target.t)
        got = out[f"logits{k}"] # those of the next draft are made of the state behind this one
        worst = max(worst, far(got, logits, f"draft {k}", 5e-3))
        if got.index(max(got)) != draft:
            sys.exit(f"draft {k} is {draft}, which is not the likeliest")
        token = draft
    print(f"{worst:.3g}")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3:])
    else:
        check(sys.argv[2], sys.argv[3])
