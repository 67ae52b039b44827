#!/usr/bin/env python3
"""Latent diffusion in PyTorch, written from the published architecture: what `tests/golden/draw.sh` compares with.

    reference.py make DIR [--seed N] [--kind sd15|turbo|sd21|sdxl]   a small random model as a diffusers directory, and its answers
    reference.py lora DIR --model MODEL [--seed N]              a small random adapter of MODEL, which `make` made, and the answers with it
    reference.py samplers FILE                                  what samplers do with a formula in the place of a model
    reference.py make DIR --kind full                           one of Stable Diffusion 1.5's sizes, without answers
    reference.py bench [--size N] [--compile]                    Stable Diffusion 1.5's sizes with random weights, on a GPU

Papers: U-Net and autoencoder https://arxiv.org/abs/2112.10752; text states https://arxiv.org/abs/2103.00020; samplers
https://arxiv.org/abs/2206.00364 (Euler), https://arxiv.org/abs/2010.02502 (DDIM); two text encoders and sizes as conditions
https://arxiv.org/abs/2307.01952.  Parameter names are those of published files.
"""
import argparse
import json
import math
import pathlib
import struct
import time

import torch
from torch import nn
from torch.nn import functional as F


class Resnet(nn.Module):
    """norm, SiLU, convolution, twice; time's embedding is added between them."""

    def __init__(self, cin, cout, groups, eps, time_dim=0):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, cin, eps)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        if time_dim:
            self.time_emb_proj = nn.Linear(time_dim, cout)
        self.norm2 = nn.GroupNorm(groups, cout, eps)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        if cin != cout:
            self.conv_shortcut = nn.Conv2d(cin, cout, 1)

    def forward(self, x, emb=None):
        h = self.conv1(F.silu(self.norm1(x)))
        if emb is not None:
            h = h + self.time_emb_proj(F.silu(emb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return (self.conv_shortcut(x) if hasattr(self, "conv_shortcut") else x) + h


class Attention(nn.Module):
    def __init__(self, dim, heads, context=None, bias=False, norm_groups=0, eps=1e-6):
        super().__init__()
        self.heads = heads
        if norm_groups:
            self.group_norm = nn.GroupNorm(norm_groups, dim, eps)
        self.to_q = nn.Linear(dim, dim, bias=bias)
        self.to_k = nn.Linear(context or dim, dim, bias=bias)
        self.to_v = nn.Linear(context or dim, dim, bias=bias)
        self.to_out = nn.ModuleList([nn.Linear(dim, dim)])

    def forward(self, x, context=None):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        context = x if context is None else context
        q, k, v = split(self.to_q(x)), split(self.to_k(context)), split(self.to_v(context))
        y = F.scaled_dot_product_attention(q, k, v) if hasattr(F, "scaled_dot_product_attention") else \
            torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v
        return self.to_out[0](y.transpose(1, 2).flatten(2))


class GatedGelu(nn.Module):
    def __init__(self, dim, inner):
        super().__init__()
        self.proj = nn.Linear(dim, 2 * inner)

    def forward(self, x):
        x, gate = self.proj(x).chunk(2, -1)
        return x * F.gelu(gate)


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.ModuleList([GatedGelu(dim, 4 * dim), nn.Identity(), nn.Linear(4 * dim, dim)])

    def forward(self, x):
        for part in self.net:
            x = part(x)
        return x


class TransformerBlock(nn.Module):
    def __init__(self, dim, heads, context):
        super().__init__()
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn1 = Attention(dim, heads)
        self.attn2 = Attention(dim, heads, context)
        self.ff = FeedForward(dim)

    def forward(self, x, context):
        x = x + self.attn1(self.norm1(x))
        x = x + self.attn2(self.norm2(x), context)
        return x + self.ff(self.norm3(x))


class Transformer(nn.Module):
    """Pixels as rows: group norm, projection, blocks, projection, residual."""

    def __init__(self, dim, heads, context, groups, depth, linear):
        super().__init__()
        self.linear = linear
        self.norm = nn.GroupNorm(groups, dim, 1e-6)
        self.proj_in = nn.Linear(dim, dim) if linear else nn.Conv2d(dim, dim, 1)
        self.transformer_blocks = nn.ModuleList([TransformerBlock(dim, heads, context) for _ in range(depth)])
        self.proj_out = nn.Linear(dim, dim) if linear else nn.Conv2d(dim, dim, 1)

    def forward(self, x, context):
        y, (h, w) = self.norm(x), x.shape[2:]
        if not self.linear:
            y = self.proj_in(y)
        y = y.flatten(2).transpose(1, 2)
        if self.linear:
            y = self.proj_in(y)
        for block in self.transformer_blocks:
            y = block(y, context)
        if self.linear:
            y = self.proj_out(y)
        y = y.transpose(1, 2).unflatten(2, (h, w))
        return x + (y if self.linear else self.proj_out(y))


class Resample(nn.Module):
    def __init__(self, dim, up):
        super().__init__()
        self.up = up
        self.conv = nn.Conv2d(dim, dim, 3, padding=1, stride=1 if up else 2)

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest") if self.up else x)


class Stage(nn.Module):
    """One resolution on the way down or up."""

    def __init__(self, channels, out, cfg, i, cross, last, up, time_dim, eps):
        super().__init__()
        groups = cfg["norm_num_groups"]
        self.resnets = nn.ModuleList([Resnet(c, out, groups, eps, time_dim) for c in channels])
        if cross:
            self.attentions = nn.ModuleList([
                Transformer(out, heads_of(cfg, i), cfg["cross_attention_dim"], groups, depth_of(cfg, i),
                            cfg.get("use_linear_projection", False)) for _ in channels])
        if not last:
            setattr(self, "upsamplers" if up else "downsamplers", nn.ModuleList([Resample(out, up)]))


def per_stage(value, i):
    return value[i] if isinstance(value, list) else value


def heads_of(cfg, i):  # published files call the number of heads attention_head_dim
    return per_stage(cfg.get("num_attention_heads") or cfg["attention_head_dim"], i)


def depth_of(cfg, i):
    return per_stage(cfg.get("transformer_layers_per_block", 1), i)


class Mid(nn.Module):
    pass


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        c, n, groups, eps = cfg["block_out_channels"], cfg["layers_per_block"], cfg["norm_num_groups"], cfg["norm_eps"]
        time_dim, last = 4 * c[0], len(c) - 1
        self.conv_in = nn.Conv2d(cfg["in_channels"], c[0], 3, padding=1)
        self.time_embedding = nn.Module()
        self.time_embedding.linear_1 = nn.Linear(c[0], time_dim)
        self.time_embedding.linear_2 = nn.Linear(time_dim, time_dim)
        if cfg.get("addition_embed_type"):
            self.add_embedding = nn.Module()
            self.add_embedding.linear_1 = nn.Linear(cfg["projection_class_embeddings_input_dim"], time_dim)
            self.add_embedding.linear_2 = nn.Linear(time_dim, time_dim)
        self.down_blocks, self.up_blocks = nn.ModuleList(), nn.ModuleList()
        skips, prev = [c[0]], c[0]
        for i, kind in enumerate(cfg["down_block_types"]):
            cin = [prev] + [c[i]] * (n - 1)
            self.down_blocks.append(Stage(cin, c[i], cfg, i, "CrossAttn" in kind, i == last, False, time_dim, eps))
            skips += [c[i]] * n + ([c[i]] if i != last else [])
            prev = c[i]
        self.mid_block = Mid()
        self.mid_block.resnets = nn.ModuleList([Resnet(c[-1], c[-1], groups, eps, time_dim) for _ in range(2)])
        self.mid_block.attentions = nn.ModuleList([
            Transformer(c[-1], heads_of(cfg, last), cfg["cross_attention_dim"], groups, depth_of(cfg, last),
                        cfg.get("use_linear_projection", False))])
        for j, kind in enumerate(cfg["up_block_types"]):
            i = last - j
            cin = []
            for k in range(n + 1):
                cin.append((prev if k == 0 else c[i]) + skips.pop())
            self.up_blocks.append(Stage(cin, c[i], cfg, i, "CrossAttn" in kind, j == last, True, time_dim, eps))
            prev = c[i]
        self.conv_norm_out = nn.GroupNorm(groups, c[0], eps)
        self.conv_out = nn.Conv2d(c[0], cfg["out_channels"], 3, padding=1)

    def waves(self, values, n):
        """The embedding of numbers, n values each."""
        half = n // 2
        f = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32, device=values.device) /
                      (half - self.cfg.get("freq_shift", 0)))
        a = values.float()[:, None] * f
        return torch.cat([torch.cos(a), torch.sin(a)] if self.cfg.get("flip_sin_to_cos", True) else
                         [torch.sin(a), torch.cos(a)], -1)

    def forward(self, x, t, context):
        """context: rows of the text; or these, the vector of the whole text, and six sizes."""
        a = self.waves(t, self.cfg["block_out_channels"][0]).to(x.dtype)
        emb = self.time_embedding.linear_2(F.silu(self.time_embedding.linear_1(a)))
        if self.cfg.get("addition_embed_type"):
            context, pooled, sizes = context
            added = torch.cat([pooled, self.waves(sizes, self.cfg["addition_time_embed_dim"]).flatten()[None].to(x.dtype)], -1)
            emb = emb + self.add_embedding.linear_2(F.silu(self.add_embedding.linear_1(added)))
        x = self.conv_in(x)
        skips = [x]
        for b in self.down_blocks:
            for i, r in enumerate(b.resnets):
                x = r(x, emb)
                if hasattr(b, "attentions"):
                    x = b.attentions[i](x, context)
                skips.append(x)
            if hasattr(b, "downsamplers"):
                x = b.downsamplers[0](x)
                skips.append(x)
        m = self.mid_block
        x = m.resnets[1](m.attentions[0](m.resnets[0](x, emb), context), emb)
        for b in self.up_blocks:
            for i, r in enumerate(b.resnets):
                x = r(torch.cat([x, skips.pop()], 1), emb)
                if hasattr(b, "attentions"):
                    x = b.attentions[i](x, context)
            if hasattr(b, "upsamplers"):
                x = b.upsamplers[0](x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c, n, groups = cfg["block_out_channels"], cfg["layers_per_block"], cfg["norm_num_groups"]
        self.conv_in = nn.Conv2d(cfg["latent_channels"], c[-1], 3, padding=1)
        self.mid_block = Mid()
        self.mid_block.resnets = nn.ModuleList([Resnet(c[-1], c[-1], groups, 1e-6) for _ in range(2)])
        self.mid_block.attentions = nn.ModuleList([Attention(c[-1], 1, bias=True, norm_groups=groups)])
        self.up_blocks, prev = nn.ModuleList(), c[-1]
        for j, out in enumerate(reversed(c)):
            cin = [prev] + [out] * n
            self.up_blocks.append(Stage(cin, out, cfg, 0, False, j == len(c) - 1, True, 0, 1e-6))
            prev = out
        self.conv_norm_out = nn.GroupNorm(groups, c[0], 1e-6)
        self.conv_out = nn.Conv2d(c[0], cfg["out_channels"], 3, padding=1)

    def forward(self, x):
        m = self.mid_block
        x = m.resnets[0](self.conv_in(x))
        a, (h, w) = m.attentions[0], x.shape[2:]
        x = x + a(a.group_norm(x).flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, (h, w))
        x = m.resnets[1](x)
        for b in self.up_blocks:
            for r in b.resnets:
                x = r(x)
            if hasattr(b, "upsamplers"):
                x = b.upsamplers[0](x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class Encoder(nn.Module):
    """Means of latents, and logarithms of their variances, of pictures."""

    def __init__(self, cfg):
        super().__init__()
        c, n, groups = cfg["block_out_channels"], cfg["layers_per_block"], cfg["norm_num_groups"]
        self.conv_in = nn.Conv2d(cfg["in_channels"], c[0], 3, padding=1)
        self.down_blocks, prev = nn.ModuleList(), c[0]
        for i, out in enumerate(c):
            stage = Stage([prev] + [out] * (n - 1), out, cfg, 0, False, True, False, 0, 1e-6)
            if i + 1 < len(c):
                stage.downsamplers = nn.ModuleList([nn.Module()])
                stage.downsamplers[0].conv = nn.Conv2d(out, out, 3, stride=2)
            self.down_blocks.append(stage)
            prev = out
        self.mid_block = Mid()
        self.mid_block.resnets = nn.ModuleList([Resnet(c[-1], c[-1], groups, 1e-6) for _ in range(2)])
        self.mid_block.attentions = nn.ModuleList([Attention(c[-1], 1, bias=True, norm_groups=groups)])
        self.conv_norm_out = nn.GroupNorm(groups, c[-1], 1e-6)
        self.conv_out = nn.Conv2d(c[-1], 2 * cfg["latent_channels"], 3, padding=1)

    def forward(self, x):
        x = self.conv_in(x)
        for b in self.down_blocks:
            for r in b.resnets:
                x = r(x)
            if hasattr(b, "downsamplers"):
                x = b.downsamplers[0].conv(F.pad(x, (0, 1, 0, 1)))
        m = self.mid_block
        x = m.resnets[0](x)
        a, (h, w) = m.attentions[0], x.shape[2:]
        x = x + a(a.group_norm(x).flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, (h, w))
        x = m.resnets[1](x)
        return self.conv_out(F.silu(self.conv_norm_out(x)))


class Autoencoder(nn.Module):
    """The half that makes pictures of latents; `encoder` and `quant_conv` are the other half."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.post_quant_conv = nn.Conv2d(cfg["latent_channels"], cfg["latent_channels"], 1)
        self.decoder = Decoder(cfg)

    def forward(self, latents):
        return self.decoder(self.post_quant_conv(latents / self.cfg["scaling_factor"]))

    def moments(self, picture):
        return self.quant_conv(self.encoder(picture))


class TextLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["hidden_size"]
        self.act, self.heads = cfg["hidden_act"], cfg["num_attention_heads"]
        self.layer_norm1, self.layer_norm2 = nn.LayerNorm(d, cfg["layer_norm_eps"]), nn.LayerNorm(d, cfg["layer_norm_eps"])
        self.self_attn = nn.Module()
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self.self_attn, name, nn.Linear(d, d))
        self.mlp = nn.Module()
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(d, cfg["intermediate_size"]), nn.Linear(cfg["intermediate_size"], d)

    def forward(self, x):
        y, a = self.layer_norm1(x), self.self_attn
        q, k, v = (p(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (a.q_proj, a.k_proj, a.v_proj))
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        y = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask, -1) @ v
        x = x + a.out_proj(y.transpose(1, 2).flatten(2))
        y = self.mlp.fc1(self.layer_norm2(x))
        return x + self.mlp.fc2(y * torch.sigmoid(1.702 * y) if self.act == "quick_gelu" else F.gelu(y))


class Text(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["hidden_size"]
        t = self.text_model = nn.Module()
        t.embeddings = nn.Module()
        t.embeddings.token_embedding = nn.Embedding(cfg["vocab_size"], d)
        t.embeddings.position_embedding = nn.Embedding(cfg["max_position_embeddings"], d)
        t.encoder = nn.Module()
        t.encoder.layers = nn.ModuleList([TextLayer(cfg) for _ in range(cfg["num_hidden_layers"])])
        t.final_layer_norm = nn.LayerNorm(d, cfg["layer_norm_eps"])
        if cfg["architectures"] == ["CLIPTextModelWithProjection"]:
            self.text_projection = nn.Linear(d, cfg["projection_dim"], bias=False)

    def states(self, ids):
        """Rows before each layer, and behind the last."""
        t = self.text_model
        out = [t.embeddings.token_embedding(ids) + t.embeddings.position_embedding.weight[: ids.shape[1]]]
        for layer in t.encoder.layers:
            out.append(layer(out[-1]))
        return out

    def forward(self, ids):
        return self.text_model.final_layer_norm(self.states(ids)[-1])

    def pooled(self, ids):
        """The projected row of the end of the text, which has the largest id."""
        return self.text_projection(self(ids)[:, ids[0].argmax()])


# --- samplers ------------------------------------------------------------------------------------------------------------------

def alphas(cfg):
    n = cfg["num_train_timesteps"]
    b = torch.linspace(cfg["beta_start"] ** 0.5, cfg["beta_end"] ** 0.5, n, dtype=torch.float64) ** 2
    return torch.cumprod(1 - b, 0)


def timesteps(cfg, steps):
    n, spacing = cfg["num_train_timesteps"], cfg.get("timestep_spacing", "linspace")
    if spacing == "linspace":
        return [(n - 1) * (steps - 1 - i) / (steps - 1) if steps > 1 else float(n - 1) for i in range(steps)]
    if spacing == "leading":
        return [float((steps - 1 - i) * (n // steps) + cfg.get("steps_offset", 0)) for i in range(steps)]
    return [float(round(n - i * n / steps) - 1) for i in range(steps)]


def euler(cfg, steps):
    """Times and noise levels, one level more than times."""
    s = ((1 - alphas(cfg)) / alphas(cfg)) ** 0.5
    ts = timesteps(cfg, steps)
    out = []
    for t in ts:
        i = min(int(t), len(s) - 2)
        out.append(float(s[i] + (s[i + 1] - s[i]) * (t - i)))
    return ts, out + [0.0]


def predict(unet, given, when, context, blank, guidance):
    e = unet(given, when, context)
    if guidance > 1:
        b = unet(given, when, blank)
        e = b + guidance * (e - b)
    return e


def ddim_from(unet, cfg, latents, noise, context, blank, guidance, steps, strength):
    """https://arxiv.org/abs/2010.02502, equation 12 with eta 0, of latents with noise added."""
    a, n = alphas(cfg), cfg["num_train_timesteps"]
    ts = timesteps(cfg, steps)[steps - int(steps * strength):]
    x = latents * a[int(ts[0])] ** 0.5 + noise * (1 - a[int(ts[0])]) ** 0.5
    for t in ts:
        e = predict(unet, x.float(), torch.tensor([t]), context, blank, guidance)
        now, before = a[int(t)], int(t) - n // steps
        then = a[before] if before >= 0 else (torch.tensor(1.0) if cfg.get("set_alpha_to_one", True) else a[0])
        if cfg.get("prediction_type", "epsilon") == "v_prediction":
            clean = now ** 0.5 * x - (1 - now) ** 0.5 * e
            e = now ** 0.5 * e + (1 - now) ** 0.5 * x
        else:
            clean = (x - (1 - now) ** 0.5 * e) / now ** 0.5
        x = then ** 0.5 * clean + (1 - then) ** 0.5 * e
    return x.float()


def draw(unet, cfg, latents, context, blank, guidance, steps, start=None, strength=1.0):
    """Euler's method; latents are unit noise.  start: latents of a picture, which noise is added to."""
    ts, sigmas = euler(cfg, steps)
    if start is not None:
        skip = steps - int(steps * strength)
        ts, sigmas = ts[skip:], sigmas[skip:]
    most = max(sigmas)
    x = latents * (most if start is not None or cfg.get("timestep_spacing") in ("linspace", "trailing") else (most * most + 1) ** 0.5)
    x = x if start is None else x + start
    first = None
    for i, t in enumerate(ts):
        given = x / (sigmas[i] ** 2 + 1) ** 0.5
        when = torch.tensor([t])
        e = unet(given, when, context)
        if first is None:
            first = (given.clone(), e.clone())
        if guidance > 1:
            b = unet(given, when, blank)
            e = b + guidance * (e - b)
        if cfg.get("prediction_type", "epsilon") == "v_prediction":
            clean = x / (sigmas[i] ** 2 + 1) - e * sigmas[i] / (sigmas[i] ** 2 + 1) ** 0.5
            e = (x - clean) / sigmas[i]
        x = x + e * (sigmas[i + 1] - sigmas[i])
    return x, first


# Samplers by themselves, in the papers' and the published classes' own terms (shares of variance, not levels), with a model that is a formula.

def shares(cfg):
    """alphas_cumprod"""
    n = cfg["num_train_timesteps"]
    if cfg["beta_schedule"] == "linear":
        b = [cfg["beta_start"] + (cfg["beta_end"] - cfg["beta_start"]) * i / (n - 1) for i in range(n)]
    else:
        lo, hi = cfg["beta_start"] ** 0.5, cfg["beta_end"] ** 0.5
        b = [(lo + (hi - lo) * i / (n - 1)) ** 2 for i in range(n)]
    out, all_left = [], 1.0
    for x in b:
        all_left *= 1 - x
        out.append(all_left)
    if cfg.get("rescale_betas_zero_snr"):
        roots = [a ** 0.5 for a in out]
        out = [((r - roots[-1]) * roots[0] / (roots[0] - roots[-1])) ** 2 for r in roots]
    return out


def normals(seed):
    """Normal values of a seed: splitmix64 (S. Vigna), then Box and Muller."""
    mask, n = (1 << 64) - 1, 0

    def bits(k):
        z = (seed + (k + 1) * 0x9e3779b97f4a7c15) & mask
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & mask
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & mask
        return z ^ (z >> 31)

    while True:
        a, b = ((bits(2 * n) >> 11) + 1) * 2.0 ** -53, (bits(2 * n + 1) >> 11) * 2.0 ** -53
        yield math.sqrt(-2 * math.log(a)) * math.cos(2 * math.pi * b)
        n += 1


def formula(given, t):
    """What stands for a model."""
    return [0.6 * g + 0.3 * math.sin(g + t / 150) for g in given]


def signal(cfg, e, x, a):
    """Clean values and noise of x, in which the share a is left, by what a model predicts."""
    kind = cfg.get("prediction_type", "epsilon")
    if kind == "epsilon":
        return (x - (1 - a) ** 0.5 * e) / a ** 0.5, e
    clean = a ** 0.5 * x - (1 - a) ** 0.5 * e if kind == "v_prediction" else e
    return clean, (x - a ** 0.5 * clean) / (1 - a) ** 0.5


def run_sampler(cfg, kind, steps, seed):
    """Times, and 4 values after all steps."""
    a, n, g = shares(cfg), cfg["num_train_timesteps"], normals(seed)
    noise = [next(g) for _ in range(4)]
    if kind in ("ddim", "lcm"):
        ts = [int(t) for t in timesteps(cfg, steps)]
        if kind == "lcm":
            own = [(i + 1) * (n // 50) - 1 for i in range(50)][::-1]
            ts = [own[i * 50 // steps] for i in range(steps)]
        x = noise
        for i, t in enumerate(ts):
            before = t - n // steps
            then = a[before] if before >= 0 else 1.0 if cfg.get("set_alpha_to_one", True) else a[0]
            both = [signal(cfg, e, y, a[t]) for e, y in zip(formula(x, t), x)]
            if kind == "ddim":
                x = [then ** 0.5 * clean + (1 - then) ** 0.5 * rest for clean, rest in both]
                continue
            scaled = t * 10.0
            skip, keep = 0.25 / (scaled ** 2 + 0.25), scaled / (scaled ** 2 + 0.25) ** 0.5
            x = [keep * clean + skip * y for (clean, _), y in zip(both, x)]
            if i + 1 < steps:
                b = a[ts[i + 1]]
                x = [b ** 0.5 * y + (1 - b) ** 0.5 * next(g) for y in x]
        return ts, x
    ts = timesteps(cfg, steps)
    a[-1] = max(a[-1], 2.0 ** -24)
    sigma = [((1 - v) / v) ** 0.5 for v in a]
    at = [sigma[int(t)] + (sigma[min(int(t) + 1, n - 1)] - sigma[int(t)]) * (t - int(t)) for t in ts] + [0.0]
    x = [y * (at[0] if cfg["timestep_spacing"] != "leading" else (at[0] ** 2 + 1) ** 0.5) for y in noise]
    for i, t in enumerate(ts):
        given = [y / (at[i] ** 2 + 1) ** 0.5 for y in x]
        left = 1 / (at[i] ** 2 + 1)
        clean = [signal(cfg, e, y, left)[0] for e, y in zip(formula(given, t), given)]
        up = 0.0
        if kind == "ancestral":
            up = (at[i + 1] ** 2 * (at[i] ** 2 - at[i + 1] ** 2) / at[i] ** 2) ** 0.5
        down = (at[i + 1] ** 2 - up ** 2) ** 0.5
        x = [y + (y - c) / at[i] * (down - at[i]) for y, c in zip(x, clean)]
        x = [y + up * next(g) for y in x] if up > 0 else x
    return ts, x


def samplers(path):
    sd = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "num_train_timesteps": 1000}
    plain = {"beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear", "num_train_timesteps": 1000}
    cases, seed = [], 1
    for cfg in ({**sd, "timestep_spacing": "leading", "steps_offset": 1, "set_alpha_to_one": False}, {**sd, "timestep_spacing": "leading"},
                {**sd, "timestep_spacing": "trailing"}, {**sd, "timestep_spacing": "linspace"},
                {**plain, "timestep_spacing": "leading", "prediction_type": "sample"}, {**plain, "timestep_spacing": "linspace"},
                {**sd, "timestep_spacing": "leading", "steps_offset": 1, "prediction_type": "v_prediction"},
                {**sd, "timestep_spacing": "trailing", "rescale_betas_zero_snr": True, "prediction_type": "v_prediction"},
                {**plain, "num_train_timesteps": 200, "timestep_spacing": "trailing", "prediction_type": "v_prediction"}):
        for kind in ("euler", "ancestral", "ddim", "lcm"):
            for steps in (1, 2, 4, 5, 20, 50):
                # The published class of DDIM goes to time t - n / steps, which is no time of its list with even spacing.
                if (kind == "ddim" and cfg["timestep_spacing"] == "linspace") or (kind == "lcm" and cfg["num_train_timesteps"] != 1000):
                    continue
                seed += 1
                ts, x = run_sampler(cfg, kind, steps, seed)
                cases.append({"config": cfg, "sampler": kind, "steps": steps, "seed": seed, "times": ts, "values": x})
    path.write_text("[" + ",\n".join(json.dumps(c) for c in cases) + "]\n")


# --- files ---------------------------------------------------------------------------------------------------------------------

def save(path, tensors, dtype, says=None):
    names = {torch.float16: "F16", torch.float32: "F32"}
    head, at, blobs = {"__metadata__": says} if says else {}, 0, []
    for name, t in tensors.items():
        b = t.detach().to(dtype).contiguous().numpy().tobytes()
        head[name] = {"dtype": names[dtype], "shape": list(t.shape), "data_offsets": [at, at + len(b)]}
        at += len(b)
        blobs.append(b)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def text_of(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def configs(kind):
    if kind == "full":
        unet, vae, text, scheduler = configs("sd15")
        unet.update(attention_head_dim=8, block_out_channels=[320, 640, 1280, 1280], cross_attention_dim=768, layers_per_block=2,
                    norm_num_groups=32, sample_size=64, down_block_types=["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
                    up_block_types=["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3)
        vae.update(block_out_channels=[128, 256, 512, 512], layers_per_block=2, norm_num_groups=32, sample_size=512,
                   down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4)
        text.update(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12)
        return unet, vae, text, scheduler
    linear = kind != "sd15"
    if kind == "sdxl":
        unet, vae, text, scheduler = configs("turbo")
        unet.update(down_block_types=["DownBlock2D", "CrossAttnDownBlock2D"], up_block_types=["CrossAttnUpBlock2D", "UpBlock2D"],
                    transformer_layers_per_block=[1, 2], cross_attention_dim=80, addition_embed_type="text_time",
                    addition_time_embed_dim=8, projection_class_embeddings_input_dim=24 + 6 * 8)
        vae.update(scaling_factor=0.13025, force_upcast=True)
        text.update(num_hidden_layers=3, hidden_act="quick_gelu", pad_token_id=1)
        scheduler.update(timestep_spacing="leading")
        return unet, vae, text, scheduler
    unet = {"_class_name": "UNet2DConditionModel", "act_fn": "silu", "attention_head_dim": [2, 4] if linear else 4,
            "block_out_channels": [16, 32], "center_input_sample": False, "cross_attention_dim": 32,
            "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "downsample_padding": 1, "flip_sin_to_cos": True,
            "freq_shift": 0, "in_channels": 4, "layers_per_block": 1, "mid_block_scale_factor": 1, "norm_eps": 1e-05,
            "norm_num_groups": 8, "out_channels": 4, "sample_size": 8,
            "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"], "use_linear_projection": linear}
    vae = {"_class_name": "AutoencoderKL", "act_fn": "silu", "block_out_channels": [16, 32],
           "down_block_types": ["DownEncoderBlock2D"] * 2, "in_channels": 3, "latent_channels": 4, "layers_per_block": 1,
           "norm_num_groups": 8, "out_channels": 3, "sample_size": 16, "scaling_factor": 0.18215,
           "up_block_types": ["UpDecoderBlock2D"] * 2}
    text = {"architectures": ["CLIPTextModel"], "model_type": "clip_text_model", "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 77, "vocab_size": 514,
            "hidden_act": "quick_gelu" if kind == "sd15" else "gelu", "layer_norm_eps": 1e-05, "bos_token_id": 512,
            "eos_token_id": 513, "pad_token_id": 1 if kind == "sd15" else 0, "projection_dim": 32}
    scheduler = {"_class_name": {"sd15": "PNDMScheduler", "sd21": "DDIMScheduler"}.get(kind, "EulerDiscreteScheduler"),
                 "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "num_train_timesteps": 1000,
                 "prediction_type": "v_prediction" if kind == "sd21" else "epsilon", "steps_offset": 1,
                 "timestep_spacing": "trailing" if kind == "turbo" else "leading"}
    if kind != "turbo":
        scheduler["set_alpha_to_one"] = False
    return unet, vae, text, scheduler


def second_text(text):
    """Configuration of SDXL's second text encoder."""
    return {**text, "architectures": ["CLIPTextModelWithProjection"], "hidden_size": 48, "intermediate_size": 96,
            "num_attention_heads": 3, "hidden_act": "gelu", "projection_dim": 24, "pad_token_id": 0}


def init(module, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            if "norm" in name and p.dim() == 1:
                p.copy_(torch.randn(p.shape, generator=g) * 0.1 + (1 if name.endswith("weight") else 0))
            elif p.dim() == 1:
                p.copy_(torch.randn(p.shape, generator=g) * 0.1)
            else:
                p.copy_(torch.randn(p.shape, generator=g) * (0.7 / math.sqrt(p[0].numel())))
            p.copy_(p.half().float())
    return module.eval()


def byte_symbols():
    """The symbol of each byte in byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    out, n = {b: chr(b) for b in plain}, 0
    for b in range(256):
        if b not in out:
            out[b], n = chr(256 + n), n + 1
    return out


def tokenizer(folder, kind):
    """Bytes alone, and bytes that end a word; no merges."""
    order = sorted(byte_symbols().items(), key=lambda kv: (kv[1] > "\xff", kv[0]))
    vocab = {s: i for i, (_, s) in enumerate(order)}
    vocab.update({s + "</w>": 256 + i for i, (_, s) in enumerate(order)})
    vocab.update({"<|startoftext|>": 512, "<|endoftext|>": 513})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    pad = "<|endoftext|>" if kind in ("sd15", "sdxl") else "!"
    text_of(folder / "special_tokens_map.json", {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>",
                                                 "pad_token": pad, "unk_token": "<|endoftext|>"})
    text_of(folder / "tokenizer_config.json", {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>",
                                               "do_lower_case": True, "model_max_length": 77, "pad_token": pad,
                                               "tokenizer_class": "CLIPTokenizer", "unk_token": "<|endoftext|>"})
    return vocab, vocab[pad]


def ids_of(text, vocab, pad):
    symbols = byte_symbols()
    out = [512]
    for word in text.lower().split():
        b = [symbols[x] for x in word.encode()]
        out += [vocab[s] for s in b[:-1]] + [vocab[b[-1] + "</w>"]]
    out = out[:76] + [513]
    return out + [pad] * (77 - len(out))


def make(folder, seed, kind):
    unet_cfg, vae_cfg, text_cfg, scheduler = configs(kind)
    torch.manual_seed(seed)
    unet, vae, text = init(UNet(unet_cfg), seed), init(Autoencoder(vae_cfg), seed + 1), init(Text(text_cfg), seed + 2)
    encodes = kind in ("sd15", "sd21", "full")
    if encodes:  # the others are without this half, which not all files have
        twice = 2 * vae_cfg["latent_channels"]
        vae.encoder, vae.quant_conv = init(Encoder(vae_cfg), seed + 4), init(nn.Conv2d(twice, twice, 1), seed + 5)
    vocab, pad = tokenizer(folder / "tokenizer", kind)
    more_parts = {}
    if kind == "sdxl":
        text_2 = init(Text(second_text(text_cfg)), seed + 7)
        tokenizer(folder / "tokenizer_2", "sd21")
        text_of(folder / "text_encoder_2/config.json", second_text(text_cfg))
        save(folder / "text_encoder_2/model.safetensors", text_2.state_dict(), torch.float16)
        more_parts = {"text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
                      "tokenizer_2": ["transformers", "CLIPTokenizer"], "force_zeros_for_empty_prompt": True}
    text_of(folder / "model_index.json", {
        **more_parts,
        "_class_name": "StableDiffusionXLPipeline" if kind == "sdxl" else "StableDiffusionPipeline", "scheduler": ["diffusers", scheduler["_class_name"]],
        "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
        "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]})
    text_of(folder / "unet/config.json", unet_cfg)
    text_of(folder / "vae/config.json", vae_cfg)
    text_of(folder / "text_encoder/config.json", text_cfg)
    text_of(folder / "scheduler/scheduler_config.json", scheduler)
    save(folder / "unet/diffusion_pytorch_model.safetensors", unet.state_dict(), torch.float16)
    save(folder / "vae/diffusion_pytorch_model.safetensors", vae.state_dict(), torch.float16)
    save(folder / "text_encoder/model.safetensors", text.state_dict(), torch.float16)
    if kind == "full":
        return
    noise = torch.randn((1, 4, *PLACES), generator=torch.Generator().manual_seed(seed + 3))
    pixels = torch.rand((1, 3, *(2 * n for n in PLACES)), generator=torch.Generator().manual_seed(seed + 6)) * 2 - 1
    answer(folder, kind, scheduler, (unet, vae, text, text_2 if kind == "sdxl" else None), (vocab, pad), vae_cfg["scaling_factor"],
           noise, pixels if encodes else None)


PLACES = 8, 12  # height and width of the latents


def answer(folder, kind, scheduler, parts, tokenizer_of, scaling, noise, init_pixels):
    """Writes what the model makes of a text and of noise; with init_pixels, of that picture too."""
    unet, vae, text, text_2 = parts
    vocab, pad = tokenizer_of
    prompt, steps, guidance = "a red house", 2, 1.0 if kind == "turbo" else 5.0
    h, w = PLACES
    with torch.no_grad():
        ids = ids_of(prompt, vocab, pad)
        ids_2 = ids_of(prompt, vocab, vocab["!"])

        def read(words):
            a, b = torch.tensor([ids_of(words, vocab, pad)]), torch.tensor([ids_of(words, vocab, vocab["!"])])
            if kind != "sdxl":
                return text(a)
            rows = torch.cat([text.states(a)[-2], text_2.states(b)[-2]], -1)
            return rows, text_2.pooled(b), torch.tensor([2 * h, 2 * w, 0, 0, 2 * h, 2 * w])

        context, blank = read(prompt), read("")
        latents, (given, noise_of) = draw(unet, scheduler, noise, context, blank, guidance, steps)
        picture = vae(latents)
    more = []
    if init_pixels is not None:
        init_steps, strength = 5, 0.7
        with torch.no_grad():
            moments = vae.moments(init_pixels)
            start = moments[:, :4] * scaling
            by_euler, _ = draw(unet, scheduler, noise, context, blank, guidance, init_steps, start, strength)
            by_ddim = ddim_from(unet, scheduler, start, noise, context, blank, guidance, init_steps, strength)
        more = [("init", init_pixels), ("moments", moments), ("init_euler", by_euler), ("init_ddim", by_ddim)]
    ts, sigmas = euler(scheduler, steps)
    text_of(folder / "expected.json", {"prompt": prompt, "ids": ids, "steps": steps, "guidance": guidance, "height": h, "width": w,
                                       "times": ts, "levels": sigmas, "init_steps": 5, "strength": 0.7,
                                       **({"ids_2": ids_2, "scaling": scaling, "pooled": context[1][0].tolist()} if kind == "sdxl" else {})})

    def rows(t):  # [1,C,Y,X] as rows of pixels
        return t[0].permute(1, 2, 0)

    for name, t in (("noise", rows(noise)), ("text", context[0][0] if kind == "sdxl" else context[0]), ("given", rows(given)), ("predicted", rows(noise_of)),
                    ("latents", rows(latents)), ("picture", rows(picture)),
                    *((name, rows(t)) for name, t in more)):
        (folder / (name + ".f32")).write_bytes(t.contiguous().float().numpy().tobytes())


def load(path):
    """The tensors of a safetensors file, f16 or f32, as f32."""
    b = path.read_bytes()
    n = struct.unpack("<Q", b[:8])[0]
    out = {}
    for name, t in json.loads(b[8:8 + n]).items():
        at, end = t["data_offsets"]
        dtype = {"F16": torch.float16, "F32": torch.float32}[t["dtype"]]
        out[name] = torch.frombuffer(bytearray(b[8 + n + at:8 + n + end]), dtype=dtype).reshape(t["shape"]).float()
    return out


def lora(folder, model, seed):
    """An adapter of all kinds of matrices and convolutions, in PEFT's names, and the answers of Stable Diffusion 1.5's kind with it."""
    def read(path):
        return json.loads((model / path).read_text())
    vae_cfg = read("vae/config.json")
    unet, vae, text = UNet(read("unet/config.json")).eval(), Autoencoder(vae_cfg).eval(), Text(read("text_encoder/config.json")).eval()
    moments = 2 * vae_cfg["latent_channels"]
    vae.encoder, vae.quant_conv = Encoder(vae_cfg).eval(), nn.Conv2d(moments, moments, 1)
    for module, stem in ((unet, "unet/diffusion_pytorch_model"), (vae, "vae/diffusion_pytorch_model"), (text, "text_encoder/model")):
        module.load_state_dict(load(model / (stem + ".safetensors")))
    block = "down_blocks.0.attentions.0.transformer_blocks.0."
    of_unet = [
        "conv_in", "conv_out", "time_embedding.linear_1", "down_blocks.0.resnets.0.conv1", "down_blocks.0.resnets.0.time_emb_proj",
        "down_blocks.0.attentions.0.proj_in", "down_blocks.0.downsamplers.0.conv", "down_blocks.1.resnets.0.conv_shortcut",
        "mid_block.resnets.1.conv2", "up_blocks.0.upsamplers.0.conv", "up_blocks.1.attentions.1.proj_out",
        *(block + n for n in ("attn1.to_q", "attn1.to_out.0", "attn2.to_k", "attn2.to_v", "ff.net.0.proj", "ff.net.2"))]
    of_text = ["text_model.encoder.layers.%d.%s" % (i, n) for i in (0, 1)
               for n in ("self_attn.q_proj", "self_attn.out_proj", "mlp.fc1", "mlp.fc2")]
    g = torch.Generator().manual_seed(seed)
    tensors, says = {}, {}
    for part, module, names, rank, alpha in (("unet", unet, of_unet, 2, 3), ("text_encoder", text, of_text, 1, 0.5)):
        says.update({part + ".r": rank, part + ".lora_alpha": alpha, part + ".peft_type": "LORA"})
        for name in names:
            w = module.state_dict()[name + ".weight"]
            a = torch.randn((rank, *w.shape[1:]), generator=g) * (0.5 / math.sqrt(w[0].numel()))
            b = torch.randn((w.shape[0], rank), generator=g) * 0.7
            a, b = a.half().float(), b.half().float()
            tensors[f"{part}.{name}.lora_A.weight"] = a
            tensors[f"{part}.{name}.lora_B.weight"] = b.reshape(*b.shape, *[1] * (w.dim() - 2))
            with torch.no_grad():
                w += alpha / rank * (b @ a.reshape(rank, -1)).reshape(w.shape)
    save(folder / "pytorch_lora_weights.safetensors", tensors, torch.float16, {"lora_adapter_metadata": json.dumps(says)})
    vocab = json.loads((model / "tokenizer/vocab.json").read_text())

    def values(name, height, width):
        b = (model / (name + ".f32")).read_bytes()
        return torch.frombuffer(bytearray(b), dtype=torch.float32).reshape(1, height, width, -1).permute(0, 3, 1, 2)
    answer(folder, "sd15", read("scheduler/scheduler_config.json"), (unet, vae, text, None), (vocab, vocab["<|endoftext|>"]),
           vae_cfg["scaling_factor"], values("noise", *PLACES), values("init", *(2 * n for n in PLACES)))


def bench(size, compiled):
    cfg = {"attention_head_dim": 8, "block_out_channels": [320, 640, 1280, 1280], "cross_attention_dim": 768,
           "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"], "in_channels": 4, "layers_per_block": 2,
           "norm_eps": 1e-05, "norm_num_groups": 32, "out_channels": 4,
           "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3}
    vae = {"block_out_channels": [128, 256, 512, 512], "latent_channels": 4, "layers_per_block": 2, "norm_num_groups": 32,
           "out_channels": 3, "scaling_factor": 0.18215}
    opt = {"device": "cuda", "dtype": torch.float16}
    unet, decode = UNet(cfg).to(**opt).eval(), Autoencoder(vae).to(**opt).eval()
    unet, decode = unet.to(memory_format=torch.channels_last), decode.to(memory_format=torch.channels_last)
    if compiled:
        unet, decode = torch.compile(unet), torch.compile(decode)
    x, context = torch.randn((1, 4, size // 8, size // 8), **opt), torch.randn((1, 77, 768), **opt)
    t = torch.tensor([999.0], device="cuda")
    x = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        for name, f in (("step", lambda: unet(x, t, context)), ("decode", lambda: decode(x))):
            for _ in range(5):
                f()
            torch.cuda.synchronize()
            times = []
            for _ in range(20):
                s = time.perf_counter()
                f()
                torch.cuda.synchronize()
                times.append(time.perf_counter() - s)
            print(f"{name}: {sorted(times)[10] * 1e3:.2f} ms at {size} x {size}{', compiled' if compiled else ''}")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("make", "lora", "samplers", "bench"))
    p.add_argument("folder", nargs="?", type=pathlib.Path)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kind", default="turbo", choices=("sd15", "turbo", "sd21", "sdxl", "full"))
    p.add_argument("--model", type=pathlib.Path)
    p.add_argument("--size", type=int, default=512)
    p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    if a.what == "make":
        make(a.folder, a.seed, a.kind)
    elif a.what == "lora":
        lora(a.folder, a.model, a.seed)
    elif a.what == "samplers":
        samplers(a.folder)
    else:
        bench(a.size, a.compile)
