#!/usr/bin/env python3
"""Writes a GGUF model with a vision part of Qwen3-VL-4B's sizes and random weights, and pictures, for speed work: the values mean nothing.

    vision_model.py FOLDER [f16|q8_0|q4_0] [tiny]     FOLDER gets text.gguf, mmproj.gguf and 1.png .. 8.png of 1024 x 1024 pixels

The type is that of the text model's matrices; the vision part is f16.  Names and keys are those of llama.cpp's converter.  tiny: the same
with small sizes.  Rows are cut out of one random block at different places."""
import array
import os
import random
import struct
import sys
import zlib

folder, kind = sys.argv[1], (sys.argv[2:] + ["f16"])[0]
tiny = sys.argv[3:] == ["tiny"]
HIDDEN, FFN, LAYERS, HEADS, KV, DIM, VOCAB = (256, 512, 4, 4, 2, 64, 2048) if tiny else (2560, 9728, 36, 32, 8, 128, 151936)
V_HIDDEN, V_FFN, V_LAYERS, V_HEADS, PATCH, EDGE = (128, 256, 6, 2, 16, 8) if tiny else (1024, 4096, 24, 16, 16, 48)
DEEP = [1, 2, 3] if tiny else [5, 11, 17]
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q8_0": (8, 32, 34)}  # number, values and bytes of a block
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
random.seed(7)


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def value(v):
    if isinstance(v, bool):
        return 7, struct.pack("<?", v)
    if isinstance(v, int):
        return 4, struct.pack("<I", v)
    if isinstance(v, float):
        return 6, struct.pack("<f", v)
    if isinstance(v, str):
        return 8, text(v)
    parts = [value(item) for item in v]
    return 9, struct.pack("<IQ", parts[0][0], len(parts)) + b"".join(p[1] for p in parts)


blocks = {}


def source(name, cols):
    """Random blocks of a type whose values deviate by 1 / sqrt(cols), longer than a row."""
    if (name, cols) not in blocks:
        _, values, size = TYPES[name]
        n, scale = 2 * cols // values + 4099, cols**-0.5
        if name == "f32":
            data = struct.pack(f"<{n}f", *(random.gauss(0, scale) for _ in range(n)))
        elif name == "f16":
            data = struct.pack(f"<{n}e", *(random.gauss(0, scale) for _ in range(n)))
        else:
            deviation = 4.6 if name == "q4_0" else 74
            data = b"".join(struct.pack("<e", scale / deviation) + random.randbytes(size - 2) for _ in range(n))
        blocks[name, cols] = data
    return blocks[name, cols]


class File:
    def __init__(self, name):
        self.name, self.keys, self.tensors = name, [], []

    def key(self, name, v):
        number, data = value(v)
        self.keys.append(text(name) + struct.pack("<I", number) + data)

    def add(self, name, kind, *shape):
        """shape: the fastest axis first; kind "ones" is f32."""
        self.tensors.append((name, kind, shape))

    def write(self):
        head, at = b"", 0
        for name, kind, shape in self.tensors:
            number, values, size = TYPES["f32" if kind == "ones" else kind]
            head += text(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", n) for n in shape) + struct.pack("<IQ", number, at)
            bytes_of = size
            for n in shape:
                bytes_of *= n
            at += -(-bytes_of // values // 32) * 32
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.keys)) + b"".join(self.keys) + head
        with open(os.path.join(folder, self.name), "wb", buffering=1 << 22) as out:
            out.write(head + b"\0" * (-len(head) % 32))
            for name, kind, shape in self.tensors:
                rows, written, cols = 1, 0, shape[0]
                for n in shape[1:]:
                    rows *= n
                if kind == "ones":
                    written = out.write(array.array("f", [1.0] * cols * rows).tobytes())
                else:
                    _, values, size = TYPES[kind]
                    data, n = source(kind, cols), cols // values * size
                    places = len(data) // size - cols // values
                    for row in range(rows):
                        at = row * 7919 % places * size
                        written += out.write(data[at:at + n])
                out.write(b"\0" * (-written % 32))


def layer(f, prefix, i, names, kind):
    for name, kind_of, shape in names:
        f.add(f"{prefix}.{i}.{name}", kind_of or kind, *shape)


os.makedirs(folder, exist_ok=True)
f = File("text.gguf")
f.key("general.architecture", "qwen3vl")
for key, v in (("block_count", LAYERS), ("context_length", 32768), ("embedding_length", HIDDEN), ("feed_forward_length", FFN),
               ("attention.head_count", HEADS), ("attention.head_count_kv", KV), ("attention.key_length", DIM),
               ("attention.value_length", DIM), ("rope.freq_base", 5e6), ("attention.layer_norm_rms_epsilon", 1e-6),
               ("rope.dimension_sections", [DIM * 3 // 16, DIM * 5 // 32, DIM * 5 // 32, 0]), ("n_deepstack_layers", len(DEEP))):
    f.key("qwen3vl." + key, v)
letters = [chr(c) for c in list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256)) + list(range(256, 256 + 68))]
tokens = letters + ["ab"]
tokens += [f"t{i}x" for i in range(VOCAB - len(tokens) - len(SPECIAL))] + SPECIAL
f.key("tokenizer.ggml.model", "gpt2")
f.key("tokenizer.ggml.pre", "qwen2")
f.key("tokenizer.ggml.tokens", tokens)
f.key("tokenizer.ggml.token_type", [1] * (VOCAB - len(SPECIAL)) + [3] * len(SPECIAL))
f.key("tokenizer.ggml.merges", ["a b"])
f.key("tokenizer.ggml.eos_token_id", VOCAB - 6)
f.key("tokenizer.chat_template", "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}{% else %}"
      "{% for c in m['content'] %}{% if c['type'] in ['image', 'image_url'] %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ c['text'] }}"
      "{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
f.add("token_embd.weight", kind, HIDDEN, VOCAB)
f.add("output_norm.weight", "ones", HIDDEN)
for i in range(LAYERS):
    layer(f, "blk", i, (
        ("attn_norm.weight", "ones", (HIDDEN,)), ("attn_q.weight", None, (HIDDEN, HEADS * DIM)),
        ("attn_k.weight", None, (HIDDEN, KV * DIM)), ("attn_v.weight", None, (HIDDEN, KV * DIM)),
        ("attn_output.weight", None, (HEADS * DIM, HIDDEN)), ("attn_q_norm.weight", "ones", (DIM,)),
        ("attn_k_norm.weight", "ones", (DIM,)), ("ffn_norm.weight", "ones", (HIDDEN,)), ("ffn_gate.weight", None, (HIDDEN, FFN)),
        ("ffn_up.weight", None, (HIDDEN, FFN)), ("ffn_down.weight", None, (FFN, HIDDEN))), kind)
f.write()

f = File("mmproj.gguf")
for key, v in (("general.architecture", "clip"), ("general.type", "mmproj"), ("clip.has_vision_encoder", True),
               ("clip.projector_type", "qwen3vl_merger"), ("clip.use_gelu", True), ("clip.vision.projection_dim", HIDDEN),
               ("clip.vision.image_size", EDGE * PATCH), ("clip.vision.patch_size", PATCH), ("clip.vision.embedding_length", V_HIDDEN),
               ("clip.vision.feed_forward_length", V_FFN), ("clip.vision.block_count", V_LAYERS),
               ("clip.vision.attention.head_count", V_HEADS), ("clip.vision.attention.layer_norm_epsilon", 1e-6),
               ("clip.vision.image_mean", [0.5] * 3), ("clip.vision.image_std", [0.5] * 3), ("clip.vision.spatial_merge_size", 2),
               ("clip.vision.image_min_pixels", 65536), ("clip.vision.image_max_pixels", 16777216),
               ("clip.vision.is_deepstack_layers", [i in DEEP for i in range(V_LAYERS)])):
    f.key(key, v)
for part in ("", ".1"):
    f.add("v.patch_embd.weight" + part, "f16", PATCH, PATCH, 3, V_HIDDEN)
f.add("v.patch_embd.bias", "f32", V_HIDDEN)
f.add("v.position_embd.weight", "f32", V_HIDDEN, EDGE * EDGE)
for i in range(V_LAYERS):
    layer(f, "v.blk", i, (
        ("ln1.weight", "ones", (V_HIDDEN,)), ("ln1.bias", "f32", (V_HIDDEN,)), ("attn_qkv.weight", "f16", (V_HIDDEN, 3 * V_HIDDEN)),
        ("attn_qkv.bias", "f32", (3 * V_HIDDEN,)), ("attn_out.weight", "f16", (V_HIDDEN, V_HIDDEN)), ("attn_out.bias", "f32", (V_HIDDEN,)),
        ("ln2.weight", "ones", (V_HIDDEN,)), ("ln2.bias", "f32", (V_HIDDEN,)), ("ffn_up.weight", "f16", (V_HIDDEN, V_FFN)),
        ("ffn_up.bias", "f32", (V_FFN,)), ("ffn_down.weight", "f16", (V_FFN, V_HIDDEN)), ("ffn_down.bias", "f32", (V_HIDDEN,))), "f16")
merged = 4 * V_HIDDEN
for i in DEEP:
    layer(f, "v.deepstack", i, (
        ("norm.weight", "ones", (merged,)), ("norm.bias", "f32", (merged,)), ("fc1.weight", "f16", (merged, merged)),
        ("fc1.bias", "f32", (merged,)), ("fc2.weight", "f16", (merged, HIDDEN)), ("fc2.bias", "f32", (HIDDEN,))), "f16")
f.add("v.post_ln.weight", "ones", V_HIDDEN)
f.add("v.post_ln.bias", "f32", V_HIDDEN)
for name, outs in (("mm.0", merged), ("mm.2", HIDDEN)):
    f.add(name + ".weight", "f16", merged, outs)
    f.add(name + ".bias", "f32", outs)
f.write()


def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


for i in range(1, 9):
    edge = 64 if tiny else 1024
    row = bytes((x * c // 4 + 37 * i) & 255 for x in range(edge) for c in (1, 2, 3))
    lines = b"".join(b"\0" + row[3 * (y % 64):] + row[:3 * (y % 64)] for y in range(edge))
    with open(os.path.join(folder, f"{i}.png"), "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", edge, edge, 8, 2, 0, 0, 0)) +
                  chunk(b"IDAT", zlib.compress(lines, 6)) + chunk(b"IEND", b""))
