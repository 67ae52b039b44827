"""A small Gemma 4 with random weights, and what an independent computation (NumPy, in f64) makes of a picture.

    /usr/bin/python3 gemma4.py DIR [wide]

Facts: models/gemma4 of transformers (modular_gemma4.py, image_processing_gemma4.py).  The first form is that of the small published models:
per-layer inputs, products with bounds, and pictures that are seen as texts are.  `wide` is that of the larger ones: features are
standardized, and rows of a picture see one another in layers with a window.  Weights are rounded to bf16.  The picture's size is one that
the processor leaves as it is.
"""
import json
import os
import struct
import sys
import zlib

import numpy as np

wide = sys.argv[2:] == ["wide"]
rng = np.random.default_rng(11 if wide else 7)
H, HEADS, DIM, FFN, LAYERS, PATCH, POOL, TABLE = 24, 3, 8, 40, 2, 4, 3, 32  # the tower
D, VOCAB, T_HEADS, T_DIM, FULL_DIM, T_FFN, WINDOW, PLE = 64, 320, 2, 16, 32, 80, 9, 16  # the text model
KINDS = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
WIDTH, HEIGHT, FEATURES = 36, 24, 8
BEGIN, END, IMAGE, PAD = 317, 318, 319, 3
EPS = 1e-6
weights = {}


def w(name, *shape, scale=None, around=0.0):
    if name not in weights:
        t = np.array(rng.standard_normal(shape) * (scale if scale else shape[-1] ** -0.5) + around, "<f4", ndmin=1)
        bits = t.view("<u4")
        weights[name] = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").reshape(shape)
    return (np.array(weights[name], "<u4", ndmin=1) << 16).view("<f4").reshape(shape).astype(np.float64)


def matrix(name, outs, ins, x, scale=None):
    return x @ w(name + ".weight", outs, ins, scale=scale).T


def unit(x, eps=EPS):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rms(name, x):
    return unit(x) * w(name + ".weight", x.shape[-1], scale=0.1, around=1.0)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rotate(x, angle):
    """Pairs (i, i + n / 2) of the last axis of x [rows, heads, n] by angle [rows, n / 2]."""
    n = x.shape[-1] // 2
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    return np.concatenate([x[..., :n] * cos - x[..., n:] * sin, x[..., n:] * cos + x[..., :n] * sin], -1)


def clipped(name, outs, ins, x):
    """Gemma4ClippableLinear."""
    if wide:
        return matrix(name + ".linear", outs, ins, x)
    low, high = w(name + ".input_min", scale=0.1, around=-1.6), w(name + ".input_max", scale=0.1, around=1.7)
    x = matrix(name + ".linear", outs, ins, np.clip(x, low, high))
    return np.clip(x, w(name + ".output_min", scale=0.1, around=-1.9), w(name + ".output_max", scale=0.1, around=1.8))


def tower(rgb):
    rows, cols = HEIGHT // PATCH, WIDTH // PATCH
    pixels = (rgb / 255.0).reshape(rows, PATCH, cols, PATCH, 3).transpose(0, 2, 1, 3, 4).reshape(rows * cols, -1)
    y, x = np.divmod(np.arange(rows * cols), cols)
    at = "model.vision_tower."
    h = matrix(at + "patch_embedder.input_proj", H, 3 * PATCH * PATCH, 2 * (pixels - 0.5))
    table = w(at + "patch_embedder.position_embedding_table", 2, TABLE, H, scale=1.0)
    h = h + table[0][x] + table[1][y]
    frequency = 100.0 ** (-np.arange(0, DIM // 2, 2) / (DIM // 2))
    for i in range(LAYERS):
        l = f"{at}encoder.layers.{i}."
        n = rms(l + "input_layernorm", h)
        q, k, v = (clipped(l + f"self_attn.{c}_proj", HEADS * DIM, H, n).reshape(-1, HEADS, DIM) for c in "qkv")
        q, k, v = rms(l + "self_attn.q_norm", q), rms(l + "self_attn.k_norm", k), unit(v)
        q, k = (np.concatenate([rotate(t[..., :DIM // 2], x[:, None] * frequency), rotate(t[..., DIM // 2:], y[:, None] * frequency)], -1)
                for t in (q, k))
        n = np.einsum("hqk,khd->qhd", softmax(np.einsum("qhd,khd->hqk", q, k)), v).reshape(-1, HEADS * DIM)
        h = h + rms(l + "post_attention_layernorm", clipped(l + "self_attn.o_proj", H, HEADS * DIM, n))
        n = rms(l + "pre_feedforward_layernorm", h)
        n = gelu(clipped(l + "mlp.gate_proj", FFN, H, n)) * clipped(l + "mlp.up_proj", FFN, H, n)
        h = h + rms(l + "post_feedforward_layernorm", clipped(l + "mlp.down_proj", H, FFN, n))
    h = h.reshape(rows // POOL, POOL, cols // POOL, POOL, H).mean((1, 3)).reshape(-1, H) * H**0.5
    if wide:
        h = (h - w(at + "std_bias", H, scale=1.0)) * w(at + "std_scale", H, scale=0.2, around=1.0)
    return matrix("model.embed_vision.embedding_projection", D, H, unit(h))


def attention(l, kind, x, image):
    full = kind == "full_attention"
    dim, n, t = FULL_DIM if full else T_DIM, len(x), np.arange(len(x))
    q = rms(l + "q_norm", matrix(l + "q_proj", T_HEADS * dim, D, x).reshape(n, T_HEADS, dim))
    k = rms(l + "k_norm", matrix(l + "k_proj", dim, D, x).reshape(n, 1, dim))
    v = unit(matrix(l + "v_proj", dim, D, x))
    pairs = np.arange(dim // 2)
    frequency = np.where(pairs < dim // 8, 1e6 ** (-2 * pairs / dim), 0) if full else 1e4 ** (-2 * pairs / dim)
    q, k = rotate(q, t[:, None] * frequency), rotate(k, t[:, None] * frequency)[:, 0]
    sees = t[None] <= t[:, None]
    if not full:
        sees = (sees | (image[:, None] & image[None] & wide)) & (t[None] > t[:, None] - WINDOW)
    scores = np.where(sees, np.einsum("qhd,kd->hqk", q, k), -np.inf)
    return matrix(l + "o_proj", D, T_HEADS * dim, np.einsum("hqk,kd->qhd", softmax(scores), v).reshape(n, -1))


def text(ids, features):
    ids, at = np.array(ids), "model.language_model."
    table, image = w(at + "embed_tokens.weight", VOCAB, D, scale=0.3), ids == IMAGE
    x = table[ids] * D**0.5
    x[image] = features
    inputs = None
    if not wide:
        own = w(at + "embed_tokens_per_layer.weight", VOCAB, len(KINDS) * PLE, scale=0.3)[np.where(image, PAD, ids)] * PLE**0.5
        context = (matrix(at + "per_layer_model_projection", len(KINDS) * PLE, D, x) * D**-0.5).reshape(len(x), len(KINDS), PLE)
        inputs = (rms(at + "per_layer_projection_norm", context) + own.reshape(context.shape)) * 2**-0.5
    for i, kind in enumerate(KINDS):
        l = f"{at}layers.{i}."
        x = x + rms(l + "post_attention_layernorm", attention(l + "self_attn.", kind, rms(l + "input_layernorm", x), image))
        n = rms(l + "pre_feedforward_layernorm", x)
        n = gelu(matrix(l + "mlp.gate_proj", T_FFN, D, n)) * matrix(l + "mlp.up_proj", T_FFN, D, n)
        x = x + rms(l + "post_feedforward_layernorm", matrix(l + "mlp.down_proj", D, T_FFN, n))
        if inputs is not None:
            n = gelu(matrix(l + "per_layer_input_gate", PLE, D, x)) * inputs[:, i]
            x = x + rms(l + "post_per_layer_input_norm", matrix(l + "per_layer_projection", D, PLE, n))
        x = x * w(l + "layer_scalar", 1, scale=0.1, around=0.9)
    return rms(at + "norm", x) @ table.T


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
rgb = rng.integers(0, 256, (HEIGHT // 4, WIDTH // 4, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
rgb = (rgb // 2 + np.arange(WIDTH, dtype=np.uint8)[None, :, None] * 3).astype(np.uint8)
lines = b"".join(b"\0" + row.tobytes() for row in rgb)
with open("image.png", "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)))
    file.write(chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))
features = tower(rgb)
prompt = [2, 5, 40, 11, BEGIN] + [IMAGE] * len(features) + [END, 9, 20, 33, 120, 77]
logits = text(prompt, features)
steps, ids = [], list(prompt)
for _ in range(8):
    last = text(ids, features)[-1]
    best = np.sort(last)[::-1]
    steps.append((int(last.argmax()), float(best[0] - best[1])))
    ids.append(steps[-1][0])
features.astype("<f4").tofile("features.f32")
logits.astype("<f4").tofile("logits.f32")
header, data = {}, b""
for name, t in weights.items():
    header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
    data += t.tobytes()
head = json.dumps(header).encode()
head += b" " * (-len(head) % 8)
with open("model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(head)) + head + data)
config = {
    "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "image_token_id": IMAGE, "boi_token_id": BEGIN,
    "eoi_token_id": END, "vision_soft_tokens_per_image": FEATURES, "tie_word_embeddings": True, "audio_config": None,
    "text_config": {
        "model_type": "gemma4_text", "vocab_size": VOCAB, "hidden_size": D, "intermediate_size": T_FFN, "num_hidden_layers": len(KINDS),
        "num_attention_heads": T_HEADS, "num_key_value_heads": 1, "head_dim": T_DIM, "global_head_dim": FULL_DIM,
        "num_global_key_value_heads": None, "attention_k_eq_v": False, "attention_bias": False, "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size_per_layer_input": 0 if wide else PLE, "vocab_size_per_layer_input": VOCAB, "num_kv_shared_layers": 0,
        "use_double_wide_mlp": False, "enable_moe_block": False, "layer_types": KINDS, "sliding_window": WINDOW, "rms_norm_eps": EPS,
        "max_position_embeddings": 512, "final_logit_softcapping": None, "tie_word_embeddings": True, "pad_token_id": PAD,
        "bos_token_id": 1, "eos_token_id": 2, "use_bidirectional_attention": "vision" if wide else None,
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "vision_config": {
        "model_type": "gemma4_vision", "hidden_size": H, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": DIM, "global_head_dim": DIM, "patch_size": PATCH,
        "pooling_kernel_size": POOL, "position_embedding_size": TABLE, "default_output_length": FEATURES,
        "hidden_activation": "gelu_pytorch_tanh", "rms_norm_eps": EPS, "standardize": wide, "use_clipped_linears": not wide,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0}}}
processor = {
    "image_processor": {
        "image_processor_type": "Gemma4ImageProcessor", "patch_size": PATCH, "pooling_kernel_size": POOL, "max_soft_tokens": FEATURES,
        "image_mean": [0.0] * 3, "image_std": [1.0] * 3, "do_normalize": False, "do_rescale": True, "resample": 3}}
json.dump(config, open("config.json", "w"))
json.dump(processor, open("processor_config.json", "w"))
expected = {
    "case": os.path.basename(os.getcwd()), "prompt": prompt, "image_token": IMAGE, "greedy": [s[0] for s in steps],
    "greedy_margin": [round(s[1], 5) for s in steps], "logits_shape": list(logits.shape), "logits_std": round(float(logits.std()), 5),
    "reference": "tests/vision/gemma4.py, NumPy"}
json.dump(expected, open("expected.json", "w"))
