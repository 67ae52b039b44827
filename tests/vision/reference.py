"""A small LFM2-VL model with random weights, and what an independent computation (PyTorch) makes of a picture.

    /usr/bin/python3 reference.py DIR [tiles]

Facts: models/lfm2_vl and models/siglip2 of transformers.  Positions of the tower are interpolated by torch's own antialiased bilinear
interpolation; everything is computed in f64 from weights that are rounded to bf16.  `tiles`: the picture is divided, and the whole, which
Pillow resizes, follows.
"""
import json
import os
import struct
import sys
import zlib

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
H, HEADS, FFN, LAYERS, PATCH, EDGE, FACTOR, INNER = 32, 2, 48, 2, 4, 8, 2, 40  # the tower, and the projector between
D, VOCAB, T_HEADS, KV, T_FFN = 32, 320, 2, 1, 48  # the text model
TILES = sys.argv[2:] == ["tiles"]
WIDTH, HEIGHT = (48, 32) if TILES else (40, 24)
TILE, WHOLE = 16, (24, 16)
IMAGE_TOKEN = VOCAB - 1
weights = {}


def w(name, *shape, scale=None, around=0.0):
    if name not in weights:
        t = torch.randn(*shape) * (scale if scale else shape[-1] ** -0.5) + around
        weights[name] = t.to(torch.bfloat16)
    return weights[name].double()


def linear(name, outs, ins, x, bias=True):
    y = x @ w(name + ".weight", outs, ins).T
    return y + w(name + ".bias", outs, scale=0.1) if bias else y


def norm(name, n, x, eps):
    return F.layer_norm(x, (n,), w(name + ".weight", n, scale=0.1, around=1.0), w(name + ".bias", n, scale=0.1), eps)


def rms(name, n, x, eps=1e-5):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w(name + ".weight", n, scale=0.1, around=1.0)


def heads(x, n):
    return x.reshape(x.shape[0], n, -1).transpose(0, 1)


def tower(rgb):
    rows, cols = rgb.shape[0] // PATCH, rgb.shape[1] // PATCH
    values = (torch.tensor(rgb, dtype=torch.float64) / 255 - 0.5) / 0.5
    patches = values.reshape(rows, PATCH, cols, PATCH, 3).permute(0, 2, 1, 3, 4).reshape(rows * cols, -1)
    at = "model.vision_tower.vision_model."
    x = linear(at + "embeddings.patch_embedding", H, 3 * PATCH * PATCH, patches)
    table = w(at + "embeddings.position_embedding.weight", EDGE * EDGE, H, scale=1.0)
    table = table.reshape(EDGE, EDGE, H).permute(2, 0, 1).unsqueeze(0)
    places = F.interpolate(table, size=(rows, cols), mode="bilinear", align_corners=False, antialias=True)
    x = x + places.reshape(H, rows * cols).T
    for i in range(LAYERS):
        l = f"{at}encoder.layers.{i}."
        y = norm(l + "layer_norm1", H, x, 1e-6)
        q, k, v = (heads(linear(l + f"self_attn.{n}_proj", H, H, y), HEADS) for n in "qkv")
        y = torch.softmax(q @ k.transpose(1, 2) * (H // HEADS) ** -0.5, -1) @ v
        x = x + linear(l + "self_attn.out_proj", H, H, y.transpose(0, 1).reshape(-1, H))
        y = F.gelu(linear(l + "mlp.fc1", FFN, H, norm(l + "layer_norm2", H, x, 1e-6)).float(), approximate="tanh").double()
        x = x + linear(l + "mlp.fc2", H, FFN, y)
    x = norm(at + "post_layernorm", H, x, 1e-6).reshape(rows, cols, H)
    x = x.reshape(rows // FACTOR, FACTOR, cols // FACTOR, FACTOR, H).permute(0, 2, 1, 3, 4).reshape(-1, FACTOR * FACTOR * H)
    at = "model.multi_modal_projector."
    x = norm(at + "layer_norm", FACTOR * FACTOR * H, x, 1e-5)
    return linear(at + "linear_2", D, INNER, F.gelu(linear(at + "linear_1", INNER, FACTOR * FACTOR * H, x)))


def turn(x, theta=1e6):
    n = x.shape[-1] // 2
    angle = torch.arange(x.shape[1]).double()[:, None] * theta ** (-torch.arange(n).double() / n)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
    return x * cos + torch.cat([-x[..., n:], x[..., :n]], -1) * sin


def conv(l, x):
    b, c, y = linear(l + "conv.in_proj", 3 * D, D, x, bias=False).chunk(3, -1)
    taps = w(l + "conv.conv.weight", D, 1, 3, scale=0.5)
    y = F.conv1d(F.pad((b * y).T.unsqueeze(0), (2, 0)), taps, groups=D)[0].T
    return linear(l + "conv.out_proj", D, D, c * y, bias=False)


def attention(l, x):
    q = heads(linear(l + "self_attn.q_proj", D, D, x, bias=False), T_HEADS)
    k = heads(linear(l + "self_attn.k_proj", D // T_HEADS * KV, D, x, bias=False), KV)
    v = heads(linear(l + "self_attn.v_proj", D // T_HEADS * KV, D, x, bias=False), KV)
    q = turn(rms(l + "self_attn.q_layernorm", D // T_HEADS, q))
    k = turn(rms(l + "self_attn.k_layernorm", D // T_HEADS, k))
    k, v = (t.repeat_interleave(T_HEADS // KV, 0) for t in (k, v))
    mask = torch.full((x.shape[0], x.shape[0]), -torch.inf).triu(1)
    y = torch.softmax(q @ k.transpose(1, 2) * (D // T_HEADS) ** -0.5 + mask, -1) @ v
    return linear(l + "self_attn.out_proj", D, D, y.transpose(0, 1).reshape(-1, D), bias=False)


def text(ids, features):
    at = "model.language_model."
    table = w(at + "embed_tokens.weight", VOCAB, D, scale=0.1)
    x = table[ids].clone()
    x[torch.tensor(ids) == IMAGE_TOKEN] = features
    for i, mixer in enumerate((conv, attention)):
        l = f"{at}layers.{i}."
        x = x + mixer(l, rms(l + "operator_norm", D, x))
        y = rms(l + "ffn_norm", D, x)
        gate, up = (linear(l + f"feed_forward.{n}", T_FFN, D, y, bias=False) for n in ("w1", "w3"))
        x = x + linear(l + "feed_forward.w2", D, T_FFN, F.silu(gate) * up, bias=False)
    return rms(at + "embedding_norm", D, x) @ table.T


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


os.chdir(sys.argv[1])
rgb = np.random.default_rng(3).integers(0, 256, (HEIGHT // 4, WIDTH // 4, 3), dtype=np.uint8).repeat(4, 0).repeat(4, 1)
rgb = (rgb // 2 + np.arange(WIDTH, dtype=np.uint8)[None, :, None] * 3).astype(np.uint8)
lines = b"".join(b"\0" + row.tobytes() for row in rgb)
with open("image.png", "wb") as file:
    file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)))
    file.write(chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b""))
pieces = [rgb]
if TILES:
    pieces = [rgb[y:y + TILE, x:x + TILE] for y in range(0, HEIGHT, TILE) for x in range(0, WIDTH, TILE)]
    pieces.append(np.asarray(Image.fromarray(rgb).resize(WHOLE, Image.BILINEAR)))
features = torch.cat([tower(piece) for piece in pieces])
prompt = [1, 5] + [IMAGE_TOKEN] * features.shape[0] + [9, 20, 33]
logits = text(prompt, features)
steps, ids = [], list(prompt)
for _ in range(8):
    last = text(ids, features)[-1]
    best = torch.sort(last, descending=True)
    steps.append((int(best.indices[0]), float(best.values[0] - best.values[1])))
    ids.append(steps[-1][0])
features.numpy().astype("<f4").tofile("features.f32")
logits.numpy().astype("<f4").tofile("logits.f32")
header, data = {}, b""
for name, t in weights.items():
    raw = t.view(torch.int16).numpy().tobytes()
    header[name] = {"dtype": "BF16", "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
    data += raw
head = json.dumps(header).encode()
head += b" " * (-len(head) % 8)
with open("model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(head)) + head + data)
config = {
    "architectures": ["Lfm2VlForConditionalGeneration"], "model_type": "lfm2_vl", "image_token_id": IMAGE_TOKEN, "downsample_factor": FACTOR,
    "projector_hidden_act": "gelu", "projector_hidden_size": INNER, "projector_bias": True, "vision_feature_layer": -1,
    "tie_word_embeddings": True,
    "text_config": {
        "model_type": "lfm2", "vocab_size": VOCAB, "hidden_size": D, "intermediate_size": T_FFN, "block_auto_adjust_ff_dim": False,
        "num_hidden_layers": 2, "num_attention_heads": T_HEADS, "num_key_value_heads": KV, "layer_types": ["conv", "full_attention"],
        "conv_L_cache": 3, "conv_bias": False, "norm_eps": 1e-5, "max_position_embeddings": 256, "rope_theta": 1e6, "bos_token_id": 1,
        "eos_token_id": 2, "tie_word_embeddings": True},
    "vision_config": {
        "model_type": "siglip2_vision_model", "hidden_size": H, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_patches": EDGE * EDGE, "patch_size": PATCH, "num_channels": 3, "layer_norm_eps": 1e-6,
        "hidden_act": "gelu_pytorch_tanh", "vision_use_head": False}}
processor = {
    "image_processor_type": "Lfm2VlImageProcessorFast", "encoder_patch_size": PATCH, "downsample_factor": FACTOR, "min_image_tokens": 4,
    "max_image_tokens": 16, "do_image_splitting": False, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}
if TILES:
    processor.update({"image_processor_type": "Lfm2VlImageProcessorPil", "max_image_tokens": 8, "do_image_splitting": True,
                      "tile_size": TILE, "min_tiles": 2, "max_tiles": 6, "use_thumbnail": True, "max_pixels_tolerance": 2.0})
json.dump(config, open("config.json", "w"))
json.dump(processor, open("preprocessor_config.json", "w"))
expected = {
    "case": os.path.basename(os.getcwd()), "prompt": prompt, "image_token": IMAGE_TOKEN, "greedy": [s[0] for s in steps],
    "greedy_margin": [round(s[1], 5) for s in steps], "logits_shape": list(logits.shape), "logits_std": round(float(logits.std()), 5),
    "reference": "tests/vision/reference.py, torch"}
json.dump(expected, open("expected.json", "w"))
