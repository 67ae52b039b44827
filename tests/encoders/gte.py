"""A small encoder of Alibaba's "new" implementation (gte-multilingual, snowflake-arctic-embed-m-v2.0, stella) with random weights, and
what an independent computation (NumPy, in f64) makes of a text.

    /usr/bin/python3 gte.py DIR

Facts: modeling.py of huggingface.co/Alibaba-NLP/new-impl: BERT's norms behind sums, rotary positions with NTK scaling, one matrix for q, k
and v, and one for the up projection and the gate.  Weights are rounded to bf16."""
import json
import os
import struct
import sys

import numpy as np

rng = np.random.default_rng(5)
H, HEADS, FFN, LAYERS, VOCAB, EPS, THETA, FACTOR = 64, 4, 96, 2, 320, 1e-12, 20000.0, 8.0
weights = {}


def w(name, *shape, scale=None, around=0.0):
    t = np.array(rng.standard_normal(shape) * (scale if scale else shape[-1] ** -0.5) + around, "<f4")
    bits = t.view("<u4")
    weights[name] = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
    return (weights[name].astype("<u4") << 16).view("<f4").astype(np.float64)


def linear(name, outs, ins, x, bias=True):
    y = x @ w(name + ".weight", outs, ins).T
    return y + w(name + ".bias", outs, scale=0.2) if bias else y


def norm(name, x):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
    return x * w(name + ".weight", H, scale=0.2, around=1.0) + w(name + ".bias", H, scale=0.2)


def erf(x):
    import math
    return np.vectorize(math.erf)(x)


def rotate(x):
    n = x.shape[-1] // 2
    frequency = (THETA * FACTOR) ** (-np.arange(n) / n) / FACTOR ** (1 / n)
    angle = (np.arange(len(x))[:, None] * frequency)[:, None]
    return np.concatenate([x[..., :n] * np.cos(angle) - x[..., n:] * np.sin(angle), x[..., n:] * np.cos(angle) + x[..., :n] * np.sin(angle)], -1)


ids = [int(i) for i in rng.integers(3, VOCAB, 24)]
x = w("new.embeddings.word_embeddings.weight", VOCAB, H, scale=1.0)[ids] + w("new.embeddings.token_type_embeddings.weight", 1, H, scale=0.5)[0]
x = norm("new.embeddings.LayerNorm", x)
for i in range(LAYERS):
    l = f"new.encoder.layer.{i}."
    q, k, v = (t.reshape(len(ids), HEADS, -1) for t in np.split(linear(l + "attention.qkv_proj", 3 * H, H, x), 3, -1))
    s = np.einsum("qhd,khd->hqk", rotate(q), rotate(k)) * (H // HEADS) ** -0.5
    s = np.exp(s - s.max(-1, keepdims=True))
    y = np.einsum("hqk,khd->qhd", s / s.sum(-1, keepdims=True), v).reshape(len(ids), H)
    x = norm(l + "attn_ln", x + linear(l + "attention.o_proj", H, H, y))
    up, gate = np.split(linear(l + "mlp.up_gate_proj", 2 * FFN, H, x, bias=False), 2, -1)
    x = norm(l + "mlp_ln", x + linear(l + "mlp.down_proj", H, FFN, up * 0.5 * gate * (1 + erf(gate / 2**0.5))))
w("classifier.weight", 1, H)  # of another use of the checkpoint
w("classifier.bias", 1)
os.makedirs(sys.argv[1] + "/1_Pooling", exist_ok=True)
os.chdir(sys.argv[1])
x.astype("<f4").tofile("hidden.f32")
(x[0] / np.sqrt((x[0] ** 2).sum())).astype("<f4").tofile("embedding.f32")
header, data = {}, b""
for name, t in weights.items():
    header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
    data += t.tobytes()
head = json.dumps(header).encode()
head += b" " * (-len(head) % 8)
with open("model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(head)) + head + data)
config = {
    "architectures": ["NewModel"], "model_type": "new", "hidden_act": "gelu", "hidden_size": H, "intermediate_size": FFN,
    "layer_norm_eps": EPS, "layer_norm_type": "layer_norm", "logn_attention_scale": False, "max_position_embeddings": 128,
    "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "pack_qkv": True, "pad_token_id": 1, "position_embedding_type": "rope",
    "rope_scaling": {"factor": FACTOR, "type": "ntk"}, "rope_theta": THETA, "type_vocab_size": 1, "vocab_size": VOCAB}
pooling = {"word_embedding_dimension": H, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
           {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
           {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]
expected = {"case": "gte", "kind": "encoder", "ids": ids, "pooling": "cls", "reference": "tests/encoders/gte.py, NumPy",
            "hidden_shape": list(x.shape)}
for name, what in (("config.json", config), ("1_Pooling/config.json", pooling), ("modules.json", modules), ("expected.json", expected)):
    with open(name, "w") as file:
        json.dump(what, file)
