#!/usr/bin/env python3
"""Drafters (EAGLE-3): makes a small model and drafters for it, and computes what they give by formula, in double precision, without any code
of this project.

    eagle.py make FOLDER [KEY=VALUE ...]     FOLDER/model and FOLDER/drafter
    eagle.py check FOLDER HEADS.json         compares with what tests/tools/heads printed

Keys: seed; layout: speculators, original, model (the names' prefixes) or gguf; vocab: tokens that can be drafts, 0: all, without list; taps:
numbers of layers, as "1,2,4", none: the defaults; embeds, head: 0 or 1, the drafter has matrices of its own; own_embed: the embedding is
another than the model's; model: the folder of a model, for which there is only a drafter, in FOLDER/drafter; normed, fc, each, output: 0 or 1, norm_before_residual, norm_before_fc, fc_norm and norm_output; bias: 0 or 1, of the attention's matrices; real: 1: each
token of the model has one successor, which the drafter knows if it can draft it; more: fields of the drafter's config.json, as JSON.

Formulas: https://arxiv.org/abs/2503.01840, and vllm/model_executor/models/llama_eagle3.py."""
import json
import math
import os
import random
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden"))
from reference import LLAMA, Llama, Model, attended, bf16, halves, heads_of, plus, turned, write

KEYS = dict(seed=1, layout="speculators", vocab=40, taps="1,3,5", embeds=1, head=1, own_embed=0, normed=1, fc=0, each=0, output=0, real=0,
            bias=0, model="", more="{}")


class Target(Llama):
    prompt = 1
    CONFIG = dict(LLAMA, architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=48, intermediate_size=48,
                  num_hidden_layers=6)

    def __init__(self, keys):
        self.keys, self.seed, self.streams = keys, keys["seed"], []
        super().__init__()

    def make(self):
        super().make()
        if self.keys["real"]:
            n, vocab = self.CONFIG["hidden_size"], self.CONFIG["vocab_size"]
            for name in [k for k in self.w if "o_proj" in k or "down_proj" in k]:
                self.w[name] = (self.w[name][0], [bf16(v * 0.02) for v in self.values(name)])
            order = list(range(vocab))
            random.shuffle(order)
            after = {order[i - 1]: order[i] for i in range(vocab)}
            rows = {after[t]: self.row("model.embed_tokens.weight", t) for t in range(vocab)}
            self.w["lm_head.weight"] = ((vocab, n), sum((rows[t] for t in range(vocab)), []))
            self.w["model.norm.weight"] = ((n,), [1.0] * n)

    def rms(self, x, name, eps):
        if name.endswith(self.norm1) or name == "model.norm":
            self.streams.append(x)
        return super().rms(x, name, eps)

    def streams_of(self, token):
        self.streams = []
        self.step(token)
        self.t += 1
        return self.streams


class Given:
    """A model of a folder, of which only sizes are known."""

    def __init__(self, folder):
        with open(folder + "/config.json") as f:
            config = json.load(f)
        self.CONFIG = config.get("text_config", config)


class Drafter(Model):
    eps, theta, heads, kv, dim, ffn = 1e-5, 5000.0, 4, 2, 16, 64

    def __init__(self, keys, target):
        self.keys, self.target, self.seed = keys, target, keys["seed"] + 1000
        self.n, self.all = target.CONFIG["hidden_size"], target.CONFIG["vocab_size"]
        taps = [int(v) for v in keys["taps"].split(",") if v]
        layers = target.CONFIG.get("num_hidden_layers", 0)
        self.stated, self.taps = taps, taps or [2, layers // 2, layers - 3]
        if taps and taps[0] == 1 and keys["layout"] != "gguf": # some files count layers by their results
            self.taps = [v + 1 for v in taps]
        self.w, self.caches, self.near = {}, {}, 1e9
        random.seed(self.seed)
        self.ids = sorted(random.sample(range(self.all), keys["vocab"])) if keys["vocab"] else list(range(self.all))
        if keys["real"]:
            self.heads = self.kv = 4
            self.dim = self.n // 4
        self.make()

    def identity(self, name, rows, cols, by):
        self.w[name] = ((rows, cols), [by if r == c else 0.0 for r in range(rows) for c in range(cols)])

    def make(self):
        n, k, real = self.n, self.keys, self.keys["real"]
        for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm", "norm"):
            self.add(name + ".weight", n)
        self.add("fc.weight", n, len(self.taps) * n)
        for name, rows, cols in (("q", self.heads * self.dim, 2 * n), ("k", self.kv * self.dim, 2 * n), ("v", self.kv * self.dim, 2 * n),
                                 ("o", n, self.heads * self.dim)):
            self.add(f"self_attn.{name}_proj.weight", rows, cols, gain=1.5)
            if k["bias"]:
                self.add(f"self_attn.{name}_proj.bias", rows, bias=True)
        for name, rows, cols in (("gate", self.ffn, n), ("up", self.ffn, n), ("down", n, self.ffn)):
            self.add(f"mlp.{name}_proj.weight", rows, cols)
        if k["fc"]:
            self.add("input_norm.weight", len(self.taps) * n)
        for i in range(len(self.taps) if k["each"] else 0):
            self.add(f"fc_norm.{i}.weight", n)
        self.add("lm_head.weight", len(self.ids), n)
        self.add("embed_tokens.weight", self.all, n)
        if not k["own_embed"] and not k["model"]:
            self.w["embed_tokens.weight"] = self.target.w["model.embed_tokens.weight"]
        if not k["head"]:
            self.w["lm_head.weight"] = self.target.w["lm_head.weight"]
        if real: # attention sees the row's own token, and passes its embedding on
            for name in ("input_layernorm", "post_attention_layernorm", "norm"):
                self.w[name + ".weight"] = ((n,), [1.0] * n)
            self.w["hidden_norm.weight"] = ((n,), [0.0] * n)
            for name, by in (("q", 3.0), ("k", 3.0), ("v", 1.0)):
                self.identity(f"self_attn.{name}_proj.weight", n, 2 * n, by)
            self.identity("self_attn.o_proj.weight", n, n, 1.0)
            self.w["mlp.down_proj.weight"] = ((n, self.ffn), [0.0] * (n * self.ffn))
            head = [self.target.row("lm_head.weight", t) for t in self.ids]
            self.w["lm_head.weight"] = ((len(head), n), sum(head, []))

    def unit(self, x):
        k = (sum(v * v for v in x) / len(x) + self.eps) ** -0.5
        return [v * k for v in x]

    def joined(self, streams):
        parts = [streams[i] for i in self.taps]
        if self.keys["each"]:
            parts = [self.rms(p, f"fc_norm.{i}", self.eps) for i, p in enumerate(parts)]
        x = sum(parts, [])
        return self.product("fc.weight", self.rms(x, "input_norm", self.eps) if self.keys["fc"] else x)

    def step(self, token, hidden, pos):
        """The result for the next position, and logits."""
        normed = self.rms(hidden, "hidden_norm", self.eps)
        x = self.rms(self.row("embed_tokens.weight", token), "input_layernorm", self.eps) + normed
        q, k, v = (heads_of(self.product(f"self_attn.{name}_proj.weight", x), h)
                   for name, h in (("q", self.heads), ("k", self.kv), ("v", self.kv)))
        q, k = ([turned(h, pos, self.theta, False) for h in part] for part in (q, k))
        self.cache("layer").append((k, v))
        y = []
        for h in range(self.heads):
            g = h // (self.heads // self.kv)
            y += attended(q[h], [s[0][g] for s in self.cache("layer")], [s[1][g] for s in self.cache("layer")], self.dim ** -0.5)
        x = plus(normed if self.keys["normed"] else hidden, self.product("self_attn.o_proj.weight", y))
        y = self.rms(x, "post_attention_layernorm", self.eps)
        gate, up = self.product("mlp.gate_proj.weight", y), self.product("mlp.up_proj.weight", y)
        x = plus(x, self.product("mlp.down_proj.weight", [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]))
        y = self.rms(x, "norm", self.eps)
        return y if self.keys["output"] else x, self.product("lm_head.weight", y)

    # --- files

    def config(self):
        k = self.keys
        layer = {"model_type": "llama", "hidden_size": self.n, "intermediate_size": self.ffn, "num_hidden_layers": 1,
                 "num_attention_heads": self.heads, "num_key_value_heads": self.kv, "head_dim": self.dim, "rms_norm_eps": self.eps,
                 "rope_theta": self.theta, "vocab_size": self.all, "hidden_act": "silu", "max_position_embeddings": 512,
                 "tie_word_embeddings": False, "attention_bias": bool(k["bias"])}
        own = {"draft_vocab_size": len(self.ids), "norm_before_residual": bool(k["normed"]), "norm_before_fc": bool(k["fc"]),
               "fc_norm": bool(k["each"]), "norm_output": bool(k["output"])}
        if k["layout"] == "speculators":
            c = dict(own, architectures=["Eagle3Speculator"], speculators_model_type="eagle3", transformer_layer_config=layer,
                     target_hidden_size=None, speculators_config={"algorithm": "eagle3", "verifier": {"name_or_path": "some/model"}})
            at = c
        else:
            c = dict(layer, **own, architectures=["LlamaForCausalLMEagle3" if k["layout"] == "original" else "LlamaForCausalLM"])
            at = c["eagle_config"] = {}
        if self.stated:
            at["eagle_aux_hidden_state_layer_ids"] = self.stated
        return dict(c, **json.loads(k["more"]))

    def kept(self):
        """Tensors that the file has, by their short names."""
        return {k: v for k, v in self.w.items() if (k != "embed_tokens.weight" or self.keys["embeds"]) and
                (k != "lm_head.weight" or self.keys["head"])}

    def save(self, folder):
        os.makedirs(folder, exist_ok=True)
        layout = self.keys["layout"]
        layer = {"speculators": "layers.0.", "original": "midlayer.", "model": "model.layers.0."}[layout]
        outside = "model." if layout == "model" else ""
        named = {}
        for name, w in self.kept().items():
            inside = name.startswith(("self_attn.", "mlp.", "input_layernorm", "hidden_norm", "post_attention"))
            named[(layer if inside else "" if name == "lm_head.weight" else outside) + name] = w
        tensors = halves(named)
        if self.keys["vocab"]:
            offsets = [t - i for i, t in enumerate(self.ids)]
            tensors["d2t"] = ("I64", [len(offsets)], struct.pack(f"<{len(offsets)}q", *offsets))
            tensors["t2d"] = ("BOOL", [self.all], bytes(t in self.ids for t in range(self.all)))
        write(folder + "/model.safetensors", tensors)
        with open(folder + "/config.json", "w") as f:
            json.dump(self.config(), f, indent=1)

    def save_gguf(self, path):
        """As llama.cpp's converter writes it: rotated pairs side by side, ids in place of offsets."""
        names = {"input_layernorm": "blk.0.attn_norm", "hidden_norm": "blk.0.attn_norm_2", "post_attention_layernorm": "blk.0.ffn_norm",
                 "norm": "output_norm", "fc": "fc", "input_norm": "enc.output_norm", "lm_head": "output", "embed_tokens": "token_embd",
                 "self_attn.q_proj": "blk.0.attn_q", "self_attn.k_proj": "blk.0.attn_k", "self_attn.v_proj": "blk.0.attn_v",
                 "self_attn.o_proj": "blk.0.attn_output", "mlp.gate_proj": "blk.0.ffn_gate", "mlp.up_proj": "blk.0.ffn_up",
                 "mlp.down_proj": "blk.0.ffn_down"}

        def text(s):
            return struct.pack("<Q", len(s)) + s.encode()

        def u32(key, v):
            return text(key) + struct.pack("<II", 4, v)

        def f32(key, v):
            return text(key) + struct.pack("<If", 6, v)

        def flag(key, v):
            return text(key) + struct.pack("<IB", 7, v)

        e = "eagle3."
        keys = [text("general.architecture") + struct.pack("<I", 8) + text("eagle3"), u32(e + "block_count", 1),
                u32(e + "context_length", 512), u32(e + "embedding_length", self.n), u32(e + "feed_forward_length", self.ffn),
                u32(e + "attention.head_count", self.heads), u32(e + "attention.head_count_kv", self.kv),
                u32(e + "attention.key_length", self.dim), u32(e + "attention.value_length", self.dim),
                u32(e + "rope.dimension_count", self.dim), f32(e + "rope.freq_base", self.theta), u32(e + "vocab_size", self.all),
                f32(e + "attention.layer_norm_rms_epsilon", self.eps), u32(e + "target_hidden_size", self.n),
                flag(e + "norm_before_residual", self.keys["normed"]), flag(e + "norm_before_fc", self.keys["fc"]),
                text(e + "extract_layers") + struct.pack(f"<IIQ{len(self.taps)}i", 9, 5, len(self.taps), *self.taps)]
        tensors = []
        for name, (shape, v) in self.kept().items():
            if "q_proj" in name or "k_proj" in name:
                cols, half = shape[1], self.dim // 2
                rows = [v[r * cols:(r + 1) * cols] for r in range(shape[0])]
                rows = [rows[h * self.dim + i % 2 * half + i // 2] for h in range(shape[0] // self.dim) for i in range(self.dim)]
                v = sum(rows, [])
            tensors.append((names[name[:-len(".weight")]] + ".weight", shape[::-1], 0, struct.pack(f"<{len(v)}f", *v)))
        if self.keys["vocab"]:
            tensors.append(("d2t", [len(self.ids)], 27, struct.pack(f"<{len(self.ids)}q", *self.ids)))
        head, data = b"", b""
        for name, shape, kind, raw in tensors:
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
            data += raw + b"\0" * (-len(raw) % 32)
        head = struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(keys)) + b"".join(keys) + head
        with open(path, "wb") as f:
            f.write(head + b"\0" * (-len(head) % 32) + data)


def made(folder, texts=None):
    """The model and the drafter of a folder; texts: new keys."""
    keys = dict(KEYS)
    if texts is None:
        with open(folder + "/keys.json") as f:
            keys = json.load(f)
    for t in texts or []:
        key, value = t.split("=", 1)
        keys[key] = type(KEYS[key])(value)
    target = Given(keys["model"]) if keys["model"] else Target(keys)
    return keys, target, Drafter(keys, target)


def make(folder, texts):
    keys, target, drafter = made(folder, texts)
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/keys.json", "w") as f:
        json.dump(keys, f)
    if not keys["model"]:
        os.makedirs(folder + "/model", exist_ok=True)
        write(folder + "/model/model.safetensors", halves(target.w))
        with open(folder + "/model/config.json", "w") as f:
            json.dump(target.CONFIG, f)
    if keys["layout"] == "gguf":
        drafter.save_gguf(folder + "/drafter.gguf")
    else:
        drafter.save(folder + "/drafter")


def spread(x):
    mean = sum(x) / len(x)
    return math.sqrt(sum((v - mean) ** 2 for v in x) / len(x))


def far(got, want, what, limit):
    d = max(abs(a - b) for a, b in zip(got, want)) / spread(want)
    if len(got) != len(want) or not d <= limit:
        sys.exit(f"{what}: {d:.3g} standard deviations from the formula, more than {limit}")
    return d


def check(folder, path):
    keys, target, drafter = made(folder)
    with open(path) as f:
        out = json.load(f)
    ids, size, worst = list(out["tokens"]), drafter.n, 0
    hidden = [out["hidden"][i * size:(i + 1) * size] for i in range(len(ids) - 1)] if keys["model"] else []
    for i, token in enumerate(ids[:-1] if not keys["model"] else []):
        hidden.append(drafter.joined(target.streams_of(token)))
        worst = max(worst, far(out["hidden"][i * size:(i + 1) * size], hidden[-1], f"hidden state {i}", 5e-3))
    n = len(hidden)
    for pos in range(n - 1 + len(out["ids"])):
        x, logits = drafter.step(ids[pos + 1], hidden[pos], pos)
        if pos < n - 1:
            continue
        k = pos - n + 2
        got = out[f"logits{k}"]
        worst = max(worst, far(got, logits, f"draft {k}", 5e-3))
        ids.append(out["ids"][k - 1])
        hidden.append(x)
        if drafter.ids[got.index(max(got))] != ids[-1]:
            sys.exit(f"draft {k} is {ids[-1]}, which is not the likeliest")
    print(f"{worst:.3g}")


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3:])
    else:
        check(sys.argv[2], sys.argv[3])
