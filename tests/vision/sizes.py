#!/usr/bin/python3
# Makes sizes.inc: what pictures become, by the formulas of the published image processors, as test_image_processor.c expects it.
# A line: form of the processor in that test, width, height of the picture -> the resized picture, tiles, features.
import math
from itertools import product


def qwen(w, h, unit=28, low=56 * 56, high=28 * 28 * 1280):
    hb, wb = round(h / unit) * unit, round(w / unit) * unit
    if hb * wb > high:
        beta = math.sqrt((h * w) / high)
        hb, wb = max(unit, math.floor(h / beta / unit) * unit), max(unit, math.floor(w / beta / unit) * unit)
    elif hb * wb < low:
        beta = math.sqrt(low / (h * w))
        hb, wb = math.ceil(h * beta / unit) * unit, math.ceil(w * beta / unit) * unit
    return wb, hb, 0, 0, wb // 28 * (hb // 28)


def pixtral(w, h, longest=1024, unit=28):
    ratio = max(h / longest, w / longest)
    if ratio > 1:
        w, h = int(math.floor(w / ratio)), int(math.floor(h / ratio))
    x, y = (w - 1) // unit + 1, (h - 1) // unit + 1
    return x * unit, y * unit, 0, 0, x * y


def idefics(w, h, longest=1456, tile=364):
    ratio = w / h
    if w >= h:
        w, h = longest, int(longest / ratio)
        h += h % 2
    else:
        w, h = int(longest * ratio), longest
        w += w % 2
    w, h = max(w, 1), max(h, 1)
    ratio = w / h
    if w >= h:
        w = math.ceil(w / tile) * tile
        h = math.ceil(int(w / ratio) / tile) * tile
    else:
        h = math.ceil(h / tile) * tile
        w = math.ceil(int(h * ratio) / tile) * tile
    split = w > tile or h > tile
    return w, h, w // tile if split else 0, h // tile if split else 0, ((w // tile) * (h // tile) + 1 if split else 1) * 169


def internvl(w, h, edge=448, low=1, high=12):
    grids = sorted((g for g in product(range(1, high + 1), repeat=2) if low <= g[0] * g[1] <= high), key=lambda g: g[0] * g[1])
    best, grid = math.inf, (1, 1)
    for g in grids:
        apart = abs(w / h - g[0] / g[1])
        if apart < best:
            best, grid = apart, g
        elif apart == best and w * h > 0.5 * edge * edge * g[0] * g[1]:
            grid = g
    n = grid[0] * grid[1]
    return grid[0] * edge, grid[1] * edge, grid[0] if n > 1 else 0, grid[1] if n > 1 else 0, (n + 1 if n > 1 else 1) * 256


def siglip2(w, h, patch=16, most=256, eps=1e-5):
    def scaled(scale, size):
        return int(max(patch, math.ceil(size * scale / patch) * patch))
    low, high = eps / 10, 100.0
    while high - low >= eps:
        scale = (low + high) / 2
        if (scaled(scale, h) / patch) * (scaled(scale, w) / patch) <= most:
            low = scale
        else:
            high = scale
    x, y = scaled(low, w), scaled(low, h)
    return x, y, 0, 0, x // patch * (y // patch)


def clip(w, h, edge=224):
    short, long = (w, h) if w <= h else (h, w)
    other = int(edge * long / short)
    return (edge, other, 0, 0, 256) if w <= h else (other, edge, 0, 0, 256)


def gemma3(w, h, least=256, most=4, active=1.2):
    long, short, n = max(w, h), min(w, h), 0
    if long / short >= active:
        n = min(most, max(2, min(int(math.floor(long / least)), int(math.floor(long / short + 0.5)))))
        if min(math.ceil(long / n), short) < least:
            n = 0
    return 896, 896, (n if w >= h else 1) if n else 0, (1 if w >= h else n) if n else 0, (n + 1) * 256


def gemma4(w, h, most=2520, unit=48):
    factor = math.sqrt(most * 16**2 / (w * h))
    x, y = math.floor(factor * w / unit) * unit, math.floor(factor * h / unit) * unit
    if y == 0:
        x, y = min(math.floor(w / h) * unit, most // 9 * unit), unit
    elif x == 0:
        x, y = unit, min(math.floor(h / w) * unit, most // 9 * unit)
    return x, y, 0, 0, x // 48 * (y // 48)


def lfm2(w, h, unit=32, low=64, high=256, tile=512):
    hb, wb = max(unit, round(h / unit) * unit), max(unit, round(w / unit) * unit)
    large = max(16, round(h / unit) * unit) * max(16, round(w / unit) * unit) > high * unit**2 * 2.0
    if hb * wb > high * unit**2:
        beta = math.sqrt((h * w) / (high * unit**2))
        hb, wb = max(unit, math.floor(h / beta / unit) * unit), max(unit, math.floor(w / beta / unit) * unit)
    elif hb * wb < low * unit**2:
        beta = math.sqrt(low * unit**2 / (h * w))
        hb, wb = math.ceil(h * beta / unit) * unit, math.ceil(w * beta / unit) * unit
    whole = wb // unit * (hb // unit)
    if not large:
        return wb, hb, 0, 0, whole
    x, y, columns, rows, _ = internvl(w, h, tile, 2, 10)
    return x, y, columns, rows, columns * rows * 256 + whole


with open("sizes.inc", "w") as out:
    for f in (qwen, pixtral, idefics, internvl, siglip2, clip, gemma3, gemma4, lfm2):
        for w, h in ((1, 1), (13, 40), (56, 56), (100, 99), (224, 224), (640, 480), (480, 640), (513, 1024), (1024, 1024), (1999, 777),
                     (300, 2400), (4000, 3000), (2000, 4001), (8192, 640), (9000, 20)):
            if f in (gemma3, gemma4, lfm2) or max(w, h) < 200 * min(w, h):
                out.write('{%s, %d, %d, %s},\n' % (f.__name__, w, h, ", ".join(map(str, f(w, h)))))
