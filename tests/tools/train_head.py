#!/usr/bin/env python3
"""Trains a layer of multi-token prediction for the demo model, on text that the demo model writes itself.

    train_head.py MODEL_DIR OUT.safetensors [--seconds 200] [--dry-run]

Needs PyTorch.  The layer's form is that of DeepSeek-V3 (https://arxiv.org/abs/2412.19437, section 2.2) around a layer of Gemma 3: the
normed embedding of the next token and the normed hidden state side by side, a product, a layer, a norm, and the model's own output
matrix.  It learns the model's distributions for the next three tokens (KL divergence), where each further token takes the layer's own
result as hidden state, as when drafting.  The result has the tensors model.layers.N.* in bfloat16, N the number of the model's layers:
put it beside model.safetensors, and "num_nextn_predict_layers": 1 into config.json.  --dry-run: a few steps of small batches on the CPU,
to see that shapes fit.
"""
import argparse, json, math, struct, sys, time
import torch
import torch.nn.functional as F


def read_safetensors(path):
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    head, out = json.loads(data[8:8 + n]), {}
    for name, t in head.items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            raw = torch.frombuffer(bytearray(data[8 + n + a:8 + n + b]), dtype=torch.bfloat16)
            out[name] = raw.reshape(t["shape"]).float()
    return out


def write_safetensors(path, tensors):
    head, at, blobs = {}, 0, []
    for name in sorted(tensors):
        raw = tensors[name].detach().cpu().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        head[name] = {"dtype": "BF16", "shape": list(tensors[name].shape), "data_offsets": [at, at + len(raw)]}
        blobs.append(raw)
        at += len(raw)
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def norm(x, w, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * (1 + w)


def rotary(x, pos, theta):
    half = x.shape[-1] // 2
    angle = pos[:, None].float() * theta ** (-torch.arange(half, device=x.device).float() / half)
    c, s = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class Shape:
    def __init__(self, c):
        self.layers, self.heads, self.kv = c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
        self.dim, self.hidden, self.ffn = c["head_dim"], c["hidden_size"], c["intermediate_size"]
        self.eps, self.scale = c["rms_norm_eps"], c["query_pre_attn_scalar"] ** -0.5
        self.window, self.types = c["sliding_window"], c["layer_types"]
        self.theta = {k: v["rope_theta"] for k, v in c["rope_parameters"].items()}
        self.vocab, self.bos = c["vocab_size"], c["bos_token_id"]


def heads(x, w, n, dim):
    return (x @ w.T).unflatten(-1, (n, dim)).transpose(-2, -3)


def layer(s, w, x, kind, earlier=None, shift=0):
    """Layer with weights w on x [B,T,H].  earlier: keys and values [B,kv,T,D] of passes before this one: row i sees rows 0..i of the
    first, row i of the others, and itself.  Returns the stream and the row's own keys and values."""
    b, t, _ = x.shape
    pos = torch.arange(t, device=x.device)
    y = norm(x, w["input_layernorm.weight"], s.eps)
    q = norm(heads(y, w["self_attn.q_proj.weight"], s.heads, s.dim), w["self_attn.q_norm.weight"], s.eps)
    k = norm(heads(y, w["self_attn.k_proj.weight"], s.kv, s.dim), w["self_attn.k_norm.weight"], s.eps)
    v = heads(y, w["self_attn.v_proj.weight"], s.kv, s.dim)
    q, k = rotary(q, pos + shift, s.theta[kind]), rotary(k, pos + shift, s.theta[kind])
    group = s.heads // s.kv
    seen = (pos[:, None] >= pos[None]) & ((pos[:, None] - pos[None] < s.window) | (kind == "full_attention"))
    passes = (earlier or []) + [(k, v)]
    first_k, first_v = (z.repeat_interleave(group, 1) for z in passes[0])
    scores = (q @ first_k.transpose(-1, -2) * s.scale).masked_fill(~seen, -math.inf)
    for pk, _ in passes[1:]:
        scores = torch.cat([scores, (q * pk.repeat_interleave(group, 1)).sum(-1, keepdim=True) * s.scale], -1)
    p = scores.softmax(-1)
    a = p[..., :t] @ first_v
    for i, (_, pv) in enumerate(passes[1:]):
        a = a + p[..., t + i:t + i + 1] * pv.repeat_interleave(group, 1)
    a = a.transpose(1, 2).flatten(2) @ w["self_attn.o_proj.weight"].T
    x = x + norm(a, w["post_attention_layernorm.weight"], s.eps)
    y = norm(x, w["pre_feedforward_layernorm.weight"], s.eps)
    y = F.gelu(y @ w["mlp.gate_proj.weight"].T, approximate="tanh") * (y @ w["mlp.up_proj.weight"].T)
    return x + norm(y @ w["mlp.down_proj.weight"].T, w["post_feedforward_layernorm.weight"], s.eps), (k, v)


def of_layer(w, i):
    p = f"model.layers.{i}."
    return {k[len(p):]: v for k, v in w.items() if k.startswith(p)}


def hidden(s, w, ids):
    x = F.embedding(ids, w["model.embed_tokens.weight"]) * math.sqrt(s.hidden)
    for i in range(s.layers):
        x, _ = layer(s, of_layer(w, i), x, s.types[i])
    return norm(x, w["model.norm.weight"], s.eps)


@torch.no_grad()
def write_text(s, w, n, length, temperatures, gen):
    """n texts of `length` tokens that the model draws, from random first tokens; text i at temperature i % len(temperatures)."""
    dev = w["model.norm.weight"].device
    ids = torch.full((n, 1), s.bos, device=dev)
    ids = torch.cat([ids, torch.randint(3, s.vocab, (n, 1), generator=gen, device=dev)], 1)
    temp = torch.tensor(temperatures, device=dev)[torch.arange(n, device=dev) % len(temperatures)][:, None]
    embed = w["model.embed_tokens.weight"]
    for _ in range(length - 2):
        row = hidden(s, w, ids)[:, -1] @ embed.T
        ids = torch.cat([ids, torch.multinomial((row / temp).softmax(-1), 1, generator=gen)], 1)
    return ids


def draft(s, w, h, ids, steps):
    """Logits of `steps` further tokens from the hidden states h of ids: logits[k][:, i] are for token i + 2 + k."""
    embed, earlier, out, y = w["model.embed_tokens.weight"], [], [], h
    b, t, _ = h.shape
    for k in range(steps):
        n = t - 1 - k
        e = F.embedding(ids[:, 1 + k:1 + k + n], embed) * math.sqrt(s.hidden)
        x = torch.cat([norm(e, w["enorm.weight"], s.eps), norm(y[:, :n], w["hnorm.weight"], s.eps)], -1)
        x = x @ w["eh_proj.weight"].T
        before = [(a[:, :, :n], c[:, :, :n]) for a, c in earlier]
        y, kv = layer(s, w, x, "full_attention", before, k)
        earlier.append(kv)
        out.append(norm(y, w["shared_head.norm.weight"], s.eps) @ embed.T)
    return out


@torch.no_grad()
def acceptance(s, w, head, ids, steps, first):
    h = hidden(s, w, ids)
    best = (h @ w["model.embed_tokens.weight"].T).argmax(-1)
    rates, right = [], None
    for k, row in enumerate(draft(s, head, h, ids, steps)):
        n = row.shape[1]
        same = row.argmax(-1) == best[:, 1 + k:1 + k + n]
        right = same if right is None else right[:, :n] & same
        rates.append(right[:, first:].float().mean().item())
    return rates


def main():
    a = argparse.ArgumentParser()
    a.add_argument("model")
    a.add_argument("out")
    a.add_argument("--seconds", type=float, default=200)
    a.add_argument("--dry-run", action="store_true")
    o = a.parse_args()
    dev = "cuda" if torch.cuda.is_available() and not o.dry_run else "cpu"
    torch.set_float32_matmul_precision("high")
    s = Shape(json.load(open(o.model + "/config.json")))
    w = {k: v.to(dev) for k, v in read_safetensors(o.model + "/model.safetensors").items()}
    gen = torch.Generator(device=dev).manual_seed(1)
    n_texts, length, batch, steps = (8, 24, 4, 3) if o.dry_run else (4096, 256, 64, 3)
    begin = time.time()
    temps = [0.05, 0.05, 0.5, 0.8, 1.0]
    texts = torch.cat([write_text(s, w, min(512, n_texts), length, temps, gen) for _ in range(max(1, n_texts // 512))])
    held = write_text(s, w, 64 if not o.dry_run else 4, length, [0.05], gen)
    print(f"{texts.numel()} tokens of text in {time.time() - begin:.0f} s", flush=True)
    head = {k: v.clone() for k, v in of_layer(w, s.layers - 1).items()}
    eye = torch.eye(s.hidden, device=dev)
    head["eh_proj.weight"] = torch.cat([0.3 * eye, eye], 1) + 0.01 * torch.randn(
        s.hidden, 2 * s.hidden, device=dev, generator=gen)
    for name in ("enorm.weight", "hnorm.weight"):
        head[name] = torch.zeros(s.hidden, device=dev)
    head["shared_head.norm.weight"] = w["model.norm.weight"].clone()
    names = list(head)
    for name in names:
        head[name].requires_grad_(True)
    opt = torch.optim.AdamW([head[n] for n in names], lr=1e-3, betas=(0.9, 0.98), weight_decay=0.01)
    head["model.embed_tokens.weight"] = w["model.embed_tokens.weight"]
    start, step, limit = time.time(), 0, o.seconds - (time.time() - begin)
    while True:
        part = 1 if o.dry_run and step >= 3 else (time.time() - start) / max(limit, 1)
        if part >= 1:
            break
        for group in opt.param_groups:
            group["lr"] = 2e-3 * min(1, (step + 1) / 200) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(part, 1))))
        ids = texts[torch.randint(0, len(texts), (batch,), generator=gen, device=dev)]
        with torch.no_grad():
            h = hidden(s, w, ids)
            wanted = (h @ w["model.embed_tokens.weight"].T).log_softmax(-1)
        loss = 0
        for k, row in enumerate(draft(s, head, h, ids, steps)):
            goal = wanted[:, 1 + k:1 + k + row.shape[1]]
            loss = loss + 0.7 ** k * F.kl_div(row.log_softmax(-1).flatten(0, 1), goal.flatten(0, 1), reduction="batchmean",
                                              log_target=True)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([head[n] for n in names], 1.0)
        opt.step()
        if step % 500 == 0:
            print(f"{time.time() - start:.0f} s, step {step}: loss {loss.item():.3f}, "
                  f"{acceptance(s, w, head, held, steps, min(16, length // 4))}", flush=True)
        step += 1
    final = {n: head[n].detach().to(torch.bfloat16).float() for n in names}
    final["model.embed_tokens.weight"] = w["model.embed_tokens.weight"]
    rates = acceptance(s, w, final, held, steps, min(16, length // 4))
    print(f"{step} steps; share of the model's own greedy-like text where all drafts up to the n-th are right: "
          + ", ".join(f"{r:.3f}" for r in rates))
    write_safetensors(o.out, {f"model.layers.{s.layers}.{n}": final[n] for n in names})
    print(f"wrote {o.out}")


if __name__ == "__main__":
    sys.exit(main())
