#!/usr/bin/env python3
"""Adapters of models that draw, in the forms that files have, and models with an adapter merged; by Python alone.

    draw_adapter.py make MODEL OUT          for every matrix and convolution of a directory of diffusers, in PEFT's names
    draw_adapter.py FORM ADAPTER OUT        the same adapter in another form: diffusers (its first names), kohya (names of diffusers
                                            joined by "_"), kohya-single (the U-Net's of single files); only-unet, peft (the U-Net's
                                            part, in names of diffusers and of a PEFT directory); two-alphas, no-alpha (wrong ones)
    draw_adapter.py merge MODEL ADAPTER OUT the model with the adapter; what changes is f32
"""
import json
import math
import pathlib
import random
import re
import shutil
import struct
import sys

STEMS = {"unet": "unet/diffusion_pytorch_model.safetensors", "text_encoder": "text_encoder/model.safetensors",
         "text_encoder_2": "text_encoder_2/model.safetensors"}
SCALES = {"unet": (2, 3), "text_encoder": (2, 1), "text_encoder_2": (2, 4)}  # rank, alpha
CODES = {"F16": ("e", 2), "F32": ("f", 4)}


def read(path):
    """Tensors as {name: (dtype, shape, values)}, and the metadata."""
    b = path.read_bytes()
    n = struct.unpack("<Q", b[:8])[0]
    head, out = json.loads(b[8:8 + n]), {}
    says = head.pop("__metadata__", {})
    for name, t in head.items():
        at, end = t["data_offsets"]
        code, size = CODES[t["dtype"]]
        out[name] = (t["dtype"], t["shape"], struct.unpack(f"<{(end - at) // size}{code}", b[8 + n + at:8 + n + end]))
    return out, says


def write(path, tensors, says):
    head, at, blobs = {"__metadata__": says} if says else {}, 0, []
    for name, (dtype, shape, values) in tensors.items():
        b = struct.pack(f"<{len(values)}{CODES[dtype][0]}", *values)
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def make(model, out):
    """Values are few sixteenths, so that products of them are exact whatever the machine multiplies and adds in one."""
    g, tensors, says = random.Random(5), {}, {}
    for part, stem in STEMS.items():
        if not (model / stem).exists():
            continue
        rank, alpha = SCALES[part]
        says.update({part + ".r": rank, part + ".lora_alpha": alpha})
        known = {name: shape for name, (_, shape, _) in read(model / stem)[0].items()}
        for name, shape in known.items():
            if len(shape) in (2, 4) and name.endswith(".weight") and "embedding." not in name:
                module = f"{part}.{name[:-len('.weight')]}"
                cols = shape[1] * (shape[2] * shape[3] if len(shape) == 4 else 1)
                tensors[module + ".lora_A.weight"] = ("F16", [rank, *shape[1:]], [g.randint(-3, 3) / 64 for _ in range(rank * cols)])
                tensors[module + ".lora_B.weight"] = ("F16", [shape[0], rank, *[1] * (len(shape) - 2)],
                                                      [g.randint(-3, 3) / 16 for _ in range(rank * shape[0])])
    write(out, tensors, {"lora_adapter_metadata": json.dumps(says)})


def single(name, model_layers):
    """The name in a single file of a module of the U-Net: levels have so many residual blocks."""
    blocks = {"norm1": "in_layers.0", "conv1": "in_layers.2", "norm2": "out_layers.0", "conv2": "out_layers.3",
              "time_emb_proj": "emb_layers.1", "conv_shortcut": "skip_connection"}
    whole = {"conv_in": "input_blocks.0.0", "conv_out": "out.2", "time_embedding.linear_1": "time_embed.0",
             "time_embedding.linear_2": "time_embed.2", "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2"}
    layers, attends = model_layers
    if name in whole:
        return whole[name]
    if m := re.fullmatch(r"mid_block\.(resnets|attentions)\.(\d)\.(.*)", name):
        kind, i, rest = m.groups()
        return f"middle_block.1.{rest}" if kind == "attentions" else f"middle_block.{2 * int(i)}.{blocks[rest]}"
    way, level, kind, i, rest = re.fullmatch(r"(down|up)_blocks\.(\d)\.(\w+)\.(\d)\.(.*)", name).groups()
    level, i, n = int(level), int(i), layers + 1
    if kind == "downsamplers":
        return f"input_blocks.{(level + 1) * n}.0.op"
    if kind == "upsamplers":
        return f"output_blocks.{level * n + n - 1}.{1 + attends(level)}.conv"
    at = f"input_blocks.{1 + level * n + i}" if way == "down" else f"output_blocks.{level * n + i}"
    return f"{at}.1.{rest}" if kind == "attentions" else f"{at}.0.{blocks[rest]}"


def convert(form, path, out):
    tensors, says = read(path)
    if form in ("only-unet", "peft"):
        own = {k: v for k, v in tensors.items() if k.startswith("unet.")}
        write(out, own if form == "only-unet" else {"base_model.model." + k[5:]: v for k, v in own.items()}, says)
        return
    says, made = json.loads(says["lora_adapter_metadata"]), {}
    names = [*tensors]
    layers = 1 + max([int(m.group(1)) for n in names if (m := re.search(r"down_blocks\.\d\.resnets\.(\d)", n))] or [0])

    def attends(level):
        return any(f"up_blocks.{level}.attentions" in n for n in names)
    for name in names:
        if not name.endswith(".lora_A.weight"):
            continue
        part, module = name[:-len(".lora_A.weight")].split(".", 1)
        scale = says[part + ".lora_alpha"] / says[part + ".r"]
        a, b = tensors[name], tensors[name.replace("lora_A", "lora_B")]
        if form == "diffusers":  # no alphas: the scale is in b
            b = ("F32", b[1], [v * scale for v in b[2]])
            end = ".lora_linear_layer" if part.startswith("text") else ".lora"
            own = f"{part}.{module}"
            if m := re.fullmatch(r"(.*attn\d)\.to_(q|k|v|out\.0)", own):
                own, end = f"{m[1]}.processor.to_{m[2][:3] if m[2] == 'out.0' else m[2]}", "_lora"
            made[f"{own}{end}.down.weight"], made[f"{own}{end}.up.weight"] = a, b
            continue
        before = {"unet": "lora_unet_", "text_encoder": "lora_te1_" if "text_encoder_2.r" in says else "lora_te_",
                  "text_encoder_2": "lora_te2_"}[part]
        if form == "kohya-single" and part == "unet":
            module = single(module, (layers, attends))
        own = before + module.replace(".", "_")
        made[own + ".lora_down.weight"], made[own + ".lora_up.weight"] = a, b
        alpha = says[part + ".lora_alpha"] / says[part + ".r"] * a[1][0]
        made[own + ".alpha"] = {"two-alphas": ("F32", [2], [alpha, alpha]), "no-alpha": ("F32", [], [math.nan])} \
            .get(form, ("F32", [], [alpha]))
    write(out, made, {"ss_network_module": "networks.lora"} if form != "diffusers" else None)


def f32(v):
    return struct.unpack("<f", struct.pack("<f", v))[0]


def merge(model, path, out):
    shutil.copytree(model, out)
    adapter, says = read(path)
    says = json.loads(says["lora_adapter_metadata"])
    for part, stem in STEMS.items():
        if not (model / stem).exists():
            continue
        tensors, _ = read(model / stem)
        for name, (_, shape, values) in [*tensors.items()]:
            key = f"{part}.{name[:-len('.weight')]}.lora_"
            if key + "A.weight" not in adapter:
                continue
            a, b = adapter[key + "A.weight"][2], adapter[key + "B.weight"][2]
            rank, scale = says[part + ".r"], says[part + ".lora_alpha"] / says[part + ".r"]
            cols, values = len(values) // shape[0], [*values]
            for i, v in enumerate(values):
                for r in range(rank):
                    v = f32(v + scale * b[i // cols * rank + r] * a[r * cols + i % cols])
                values[i] = v
            tensors[name] = ("F32", shape, values)
        (out / stem).chmod(0o644)
        write(out / stem, tensors, None)


if __name__ == "__main__":
    what, *paths = sys.argv[1], *map(pathlib.Path, sys.argv[2:])
    if what == "make":
        make(*paths)
    elif what == "merge":
        merge(*paths)
    else:
        convert(what, *paths)
