#!/usr/bin/env python3
"""Makes a model directory with a layer of multi-token prediction out of one without, in plain Python.

    add_head.py MODEL OUT SEED [--like deepseek|qwen|nemotron] [--from FILE]

The layer's parts are random values of the kind of the last attending layer's, in one file with the model's tensors; or the tensors of FILE,
with links to both files and an index.
"""
import json, os, random, struct, sys


def header(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return {k: v for k, v in json.loads(f.read(n)).items() if k != "__metadata__"}


def pack(dtype, values):
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    words = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(values)}H", *[(w + 0x8000) >> 16 & 0xffff for w in words])


def write(path, tensors):
    head, at = {}, 0
    for name, (dtype, shape, raw) in tensors.items():
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            f.write(raw)


def names_of(like, prefix, n):
    if like == "nemotron":
        at = "mtp.layers.0."
        return at, {"in": at + "eh_proj.weight", "e": at + "enorm.weight", "h": at + "hnorm.weight",
                    "out": "mtp.layers.1.final_layernorm.weight"}
    if like == "qwen":
        return "mtp.layers.0.", {"in": "mtp.fc.weight", "e": "mtp.pre_fc_norm_embedding.weight",
                                 "h": "mtp.pre_fc_norm_hidden.weight", "out": "mtp.norm.weight"}
    at = f"{prefix}layers.{n}."
    return at, {"in": at + "eh_proj.weight", "e": at + "enorm.weight", "h": at + "hnorm.weight",
                "out": at + "shared_head.norm.weight"}


def main():
    model, out, seed = sys.argv[1:4]
    like = sys.argv[sys.argv.index("--like") + 1] if "--like" in sys.argv else "deepseek"
    given = sys.argv[sys.argv.index("--from") + 1] if "--from" in sys.argv else None
    rng = random.Random(int(seed))
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(model):
        if name not in ("config.json", "model.safetensors"):
            os.symlink(os.path.abspath(f"{model}/{name}"), f"{out}/{name}")
    with open(f"{model}/config.json") as f:
        config = json.load(f)
    part = config.get("text_config", config)
    part["mtp_num_hidden_layers" if like == "qwen" else "num_nextn_predict_layers"] = 1
    with open(f"{out}/config.json", "w") as f:
        json.dump(config, f)
    tensors = header(f"{model}/model.safetensors")
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    os.symlink(os.path.abspath(f"{model}/model.safetensors"), f"{out}/{first}")
    index = {name: first for name in tensors}
    if given:
        os.symlink(os.path.abspath(given), f"{out}/{second}")
        index.update({name: second for name in header(given)})
    else:
        embed = next(k for k in tensors if k.endswith(("embed_tokens.weight", "embeddings.weight")))
        prefix, hidden, dtype = embed[:embed.rindex("embed")], tensors[embed]["shape"][1], tensors[embed]["dtype"]
        n = part.get("num_hidden_layers")
        at, own = names_of(like, prefix, n)
        new = {}

        def last(*parts):  # prefix of the last layer with one of these matrices
            of = [k for k in tensors if any(x in k for x in parts)]
            return f"{prefix}layers.{max(int(k[len(prefix) + len('layers.'):].split('.')[0]) for k in of)}."

        def add(name, shape, around, spread):
            count = 1
            for d in shape:
                count *= d
            new[name] = (dtype, shape, pack(dtype, [around + rng.gauss(0, spread) for _ in range(count)]))

        like_layers = {last("self_attn.o_proj", "self_attn.dense", "mixer.o_proj"): at}
        if like == "nemotron":
            like_layers[last("mixer.gate.weight", "mixer.up_proj")] = "mtp.layers.1."
        for key, t in tensors.items():
            for layer, to in like_layers.items():
                if key.startswith(layer):
                    one = len(t["shape"]) == 1 and "norm" in key
                    wide = t["shape"][-1]
                    add(to + key[len(layer):], t["shape"], 0.9 if one else 0,
                        0.1 if len(t["shape"]) == 1 else 1.2 / wide ** 0.5)
        add(own["in"], [hidden, 2 * hidden], 0, 1 / (2 * hidden) ** 0.5)
        for k in ("e", "h", "out"):
            add(own[k], [hidden], 0.9, 0.1)
        with open(f"{model}/model.safetensors", "rb") as f:
            size, raw = struct.unpack("<Q", f.read(8))[0], f.read()
        for key, t in tensors.items():
            a, b = t["data_offsets"]
            new[key] = (t["dtype"], t["shape"], raw[size + a:size + b])
        os.remove(f"{out}/{first}")
        write(f"{out}/model.safetensors", new)
        return
    with open(f"{out}/model.safetensors.index.json", "w") as f:
        json.dump({"metadata": {}, "weight_map": index}, f)


main()
