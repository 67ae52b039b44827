#!/usr/bin/python3
# Makes the pictures of this folder, and pictures.txt: for each its size and the FNV-1a of the RGB that Pillow (python3-pil) decodes.
# Run it by hand where a kind is missing; tests/unit/media/test_picture.c reads what it made.
import struct, zlib
from PIL import Image, ImageOps

W, H = 23, 17
rgb = Image.new("RGB", (W, H))
rgb.putdata([((x * 11) & 255, (y * 15) & 255, (x * y * 7 + 40) & 255) for y in range(H) for x in range(W)])
gray = rgb.convert("L")
alpha = Image.new("L", (W, H))
alpha.putdata([(x * 3 + y * 9) & 255 for y in range(H) for x in range(W)])
rgba = rgb.copy()
rgba.putalpha(alpha)
palette = rgb.quantize(13)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(depth, color, row, width=W, height=H, more=b"", interlace=0, rows=None):
    """row(y, xs) gives the packed bytes of the pixels xs of row y."""
    if interlace:
        data = b""
        for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
            for y in range(y0, height, dy):
                if x0 < width:
                    data += b"\0" + row(y, range(x0, width, dx))
    else:
        data = b"".join(b"\0" + row(y, range(width)) for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + more + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b"")


def bits(depth):
    def row(y, xs):
        v, n, out = 0, 0, b""
        for x in xs:
            v, n = v << depth | (x * 5 + y * 3) % (1 << depth), n + depth
            if n == 8:
                out, v, n = out + bytes([v]), 0, 0
        return out + (bytes([v << (8 - n)]) if n else b"")
    return row


def rgb16(y, xs):
    return b"".join(struct.pack(">HHH", x * 2311 & 65535, y * 3011 & 65535, x * y * 997 & 65535) for x in xs)


def rgba8(y, xs):
    return b"".join(bytes(rgba.getpixel((x, y))) for x in xs)


def exif(orientation, order="<"):
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return head + struct.pack(order + "HHHIHHI", 1, 0x112, 3, 1, orientation, 0, 0)


colors = chunk(b"PLTE", bytes(range(0, 48 * 5, 5))) + chunk(b"tRNS", b"\0\x80")
files = {
    "gray1.png": png(1, 0, bits(1)), "gray2.png": png(2, 0, bits(2)), "gray4.png": png(4, 0, bits(4)),
    "gray8.png": png(8, 0, bits(8)), "palette4.png": png(4, 3, bits(4), more=colors), "rgb16.png": png(16, 2, rgb16),
    "rgba.png": png(8, 6, rgba8), "interlaced.png": png(8, 6, rgba8, interlace=1),
    "exif6.png": png(8, 6, rgba8, more=chunk(b"eXIf", exif(6, ">"))),
}
for name, picture, options in (
        ("rgb.png", rgb, {}), ("la.png", rgba.convert("LA"), {}),
        ("baseline.jpg", rgb, dict(quality=85)), ("progressive.jpg", rgb, dict(quality=85, progressive=True)),
        ("full.jpg", rgb, dict(quality=95, subsampling=0)), ("gray.jpg", gray, {}), ("cmyk.jpg", rgb.convert("CMYK"), {}),
        ("lossy.webp", rgb, dict(quality=80)), ("lossless.webp", rgb, dict(lossless=True)), ("alpha.webp", rgba, dict(lossless=True)),
        ("exif8.webp", rgb, dict(lossless=True, exif=exif(8))),
        ("animated.webp", rgb, dict(lossless=True, save_all=True, append_images=[ImageOps.invert(rgb)], duration=100)),
        ("palette.gif", palette, {}), ("flat.gif", palette, dict(interlace=0)), ("gray.gif", gray, {}),
        ("animated.gif", palette, dict(save_all=True, append_images=[ImageOps.invert(rgb).quantize(5)], duration=100)),
        ("transparent.gif", palette, dict(transparency=3))) + tuple(
            ("exif%d.jpg" % i, rgb, dict(quality=85, exif=b"Exif\0\0" + exif(i, "<>"[i & 1]))) for i in range(1, 9)):
    picture.save(name, **options)
    files[name] = open(name, "rb").read()
# A frame that does not cover its canvas, with a palette of its own.
whole = files["palette.gif"]
files["small.gif"] = whole[:6] + struct.pack("<HH", W + 9, H + 4) + whole[10:]
at = whole.index(b",", 13 + 3 * (2 << (whole[10] & 7)))
files["small.gif"] = files["small.gif"][:at + 1] + struct.pack("<HH", 5, 2) + files["small.gif"][at + 5:]

with open("pictures.txt", "w") as table:
    for name in sorted(files):
        open(name, "wb").write(files[name])
        p = ImageOps.exif_transpose(Image.open(name)).convert("RGB")
        h = 0xcbf29ce484222325
        for b in p.tobytes():
            h = (h ^ b) * 0x100000001b3 & (1 << 64) - 1
        table.write("%s %d %d %016x\n" % (name, p.width, p.height, h))

# ---- rgb.png resized: by Pillow, and with weights of as many bits as torchvision's tensors have -----------------------------------
import math
import numpy


def kernel(number, x):
    x = abs(x)
    if number == 1:
        return 1.0 if x == 0 else math.sin(math.pi * x) / (math.pi * x) * math.sin(math.pi * x / 3) / (math.pi * x / 3) if x < 3 else 0.0
    if number == 2:
        return max(0.0, 1 - x)
    return ((1.5 * x - 2.5) * x * x + 1) if x < 1 else (((x - 5) * x + 8) * x - 4) * -0.5 if x < 2 else 0.0


def resized(a, n, number):
    """Along the first axis, as torchvision does."""
    if n == len(a):
        return a
    scale = len(a) / n
    wide, rows = max(scale, 1), []
    support = {1: 3, 2: 1, 3: 2}[number] * wide
    for i in range(n):
        center = (i + .5) * scale
        low, high = max(int(center - support + .5), 0), min(int(center + support + .5), len(a))
        w = numpy.array([kernel(number, (k - center + .5) / wide) for k in range(low, high)])
        rows.append((low, w / w.sum()))
    bits = 0
    while bits < 22 and int(.5 + max(w.max() for _, w in rows) * (1 << bits + 1)) < 1 << 15:
        bits += 1
    out = []
    for low, w in rows:
        q = numpy.trunc(w * (1 << bits) + numpy.where(w < 0, -.5, .5)).astype(int)
        out.append(numpy.clip(numpy.tensordot(q, a[low:low + len(q)], 1) + (1 << bits - 1) >> bits, 0, 255))
    return numpy.array(out)


def fnv(data):
    h = 0xcbf29ce484222325
    for b in data:
        h = (h ^ b) * 0x100000001b3 & (1 << 64) - 1
    return h


with open("resized.inc", "w") as out:
    pixels = numpy.array(rgb).astype(int)
    for w, h in ((7, 5), (64, 40), (23, 9), (11, 17), (1, 1), (100, 3)):
        for number, name in ((1, "LANCZOS"), (2, "BILINEAR"), (3, "BICUBIC")):
            torch = resized(resized(pixels.transpose(1, 0, 2), w, number).transpose(1, 0, 2), h, number)
            for point, data in (("PILLOW", rgb.resize((w, h), number).tobytes()), ("TORCHVISION", torch.astype("uint8").tobytes())):
                out.write("{%d, %d, DOP_FILTER_%s, DOP_FIXED_%s, 0x%016x},\n" % (w, h, name, point, fnv(data)))
