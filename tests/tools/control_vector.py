"""Writes a control vector as llama.cpp's tools do, with directions drawn from a normal distribution.

python3 control_vector.py FILE LAYERS WIDTH SEED SIZE    LAYERS: as 0,1,5
"""
import random
import struct
import sys


def text(x):
    return struct.pack("<Q", len(x)) + x.encode()


path, layers, width, seed, size = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
draws = random.Random(seed)
tensors = data = b""
for layer in layers:
    tensors += text("direction." + layer) + struct.pack("<IQIQ", 1, width, 0, len(data))
    data += b"".join(struct.pack("<f", draws.gauss(0, size)) for _ in range(width))
    data += b"\0" * (-len(data) % 32)
head = b"GGUF" + struct.pack("<IQQ", 3, len(layers), 1)
head += text("general.architecture") + struct.pack("<I", 8) + text("controlvector") + tensors
with open(path, "wb") as f:
    f.write(head + b"\0" * (-len(head) % 32) + data)
