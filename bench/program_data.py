#!/usr/bin/env python3
"""Makes what packaged programs read: program_data.py KIND PATH BYTES. The same bytes every time, but for what a database
puts around them; prints an empty JSON object."""
import argparse
import math
import pathlib
import random
import struct
import subprocess

from measurement import MIB

ROW_BYTES = 1000
PAIR_BYTES = 600


def make_random(path, size, repeats=0.0):
    """Random bytes, of which a share comes again from far behind: what a long-range compressor looks for."""
    generator = random.Random(11)
    with open(path, "wb+") as file:
        for number in range(size // MIB):
            if number > 8 and generator.random() < repeats:
                file.seek(generator.randrange(number - 1) * MIB + generator.randrange(4096))
                data = file.read(MIB)
                file.seek(number * MIB)
            else:
                data = generator.randbytes(MIB)
            file.write(data)


def make_repeating(path, size):
    make_random(path, size, 0.3)


def make_lines(path, size):
    """Sorted lines of 100 bytes, each of which begins with its number."""
    generator = random.Random(5)
    with open(path, "w", encoding="ascii") as file:
        for number in range(size // 100):
            file.write(f"{number:011d} {generator.randbytes(43).hex()} \n")


def make_database(path, size):
    """An SQLite table of rows of some 1,000 bytes."""
    rows = size // ROW_BYTES
    subprocess.run(["sqlite3", str(path)], check=True, text=True, input=f"""
        CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB, c INTEGER);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
        INSERT INTO t SELECT i, randomblob(900), abs(random()) % {rows} FROM n;""")


def make_pairs(path, size):
    """An LMDB environment of pairs of some 600 bytes."""
    generator = random.Random(3)
    text = path.with_suffix(".pairs")
    with open(text, "w", encoding="ascii") as file:
        file.write(f"VERSION=3\nformat=bytevalue\ntype=btree\nmapsize={2 * size}\nmaxreaders=126\nHEADER=END\n")
        for number in range(size // PAIR_BYTES):
            file.write(f" {number:016x}\n {generator.randbytes(400).hex()}\n")
        file.write("DATA=END\n")
    path.mkdir()
    subprocess.run(["mdb_load", "-f", text, path], check=True)
    text.unlink()


def gguf_text(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_values(values, of_numbers="I"):
    """A list, or a single value, with its type before it."""
    single = values if not isinstance(values, list) else values[0]
    kind, pack = ((8, gguf_text) if isinstance(single, str) else
                  (6, lambda number: struct.pack("<f", number)) if isinstance(single, float) else
                  ({"I": 4, "i": 5}[of_numbers], lambda number: struct.pack("<" + of_numbers, number)))
    if values is single:
        return struct.pack("<I", kind) + pack(values)
    return struct.pack("<IIQ", 9, kind, len(values)) + b"".join(map(pack, values))


def gguf_header(width, inner, words, layers):
    """What a file in format GGUF, version 2, says of a model of the Llama kind: its shape and its vocabulary."""
    vocabulary = (["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] +
                  [f"\u2581w{word}" for word in range(words - 259)])
    values = {
        "general.architecture": gguf_values("llama"), "general.name": gguf_values("random weights"),
        "general.file_type": gguf_values(1), "llama.context_length": gguf_values(512),
        "llama.embedding_length": gguf_values(width), "llama.block_count": gguf_values(layers),
        "llama.feed_forward_length": gguf_values(inner), "llama.attention.head_count": gguf_values(8),
        "llama.attention.head_count_kv": gguf_values(8), "llama.rope.dimension_count": gguf_values(width // 8),
        "llama.attention.layer_norm_rms_epsilon": gguf_values(1e-5), "tokenizer.ggml.model": gguf_values("llama"),
        "tokenizer.ggml.tokens": gguf_values(vocabulary),
        "tokenizer.ggml.scores": gguf_values([0.0] * 259 + [-float(word) for word in range(words - 259)]),
        "tokenizer.ggml.token_type": gguf_values([2, 3, 3] + [6] * 256 + [1] * (words - 259), "i"),
        "tokenizer.ggml.bos_token_id": gguf_values(1), "tokenizer.ggml.eos_token_id": gguf_values(2),
    }
    return len(values), b"".join(gguf_text(key) + value for key, value in values.items())


def random_weights(generator, count):
    """So many numbers of 16 bits, of either sign and between 2 to the power of -7 and -6."""
    data = bytearray(2 * count)
    data[0::2] = generator.randbytes(count)
    data[1::2] = generator.randbytes(count).translate(bytes(byte & 0x83 | 8 << 2 for byte in range(256)))
    return data


def make_weights(path, size):
    """A language model of random weights, for programs built on ggml: it says nothing, and costs what one does."""
    generator = random.Random(17)
    width = 1024 if size >= 128 * MIB else 256
    inner, words = width * 43 // 16, 4096
    layer = [(f"attn_{part}", (width, width)) for part in ("q", "k", "v", "output")]
    layer += [("ffn_gate", (width, inner)), ("ffn_up", (width, inner)), ("ffn_down", (inner, width)),
              ("attn_norm", (width,)), ("ffn_norm", (width,))]
    tensors = [("token_embd", (width, words)), ("output", (width, words)), ("output_norm", (width,))]
    layer_bytes = 2 * sum(math.prod(shape) for _, shape in layer)
    layers = max(1, (size - 4 * width * words) // layer_bytes)
    tensors += [(f"blk.{number}.{name}", shape) for number in range(layers) for name, shape in layer]
    places, end = b"", 0
    for name, shape in tensors:
        # Vectors are floats, and ones; matrices are of 16 bits. All begin at multiples of 32.
        places += gguf_text(name + ".weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape,
                                                            0 if len(shape) == 1 else 1, end)
        end += math.prod(shape) * (4 if len(shape) == 1 else 2)
    count, values = gguf_header(width, inner, words, layers)
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 2, len(tensors), count) + values + places)
        file.write(bytes(-file.tell() % 32))
        for _, shape in tensors:
            file.write(struct.pack("<f", 1.0) * shape[0] if len(shape) == 1 else
                       random_weights(generator, math.prod(shape)))


KINDS = {"weights": make_weights, "random": make_random, "repeating": make_repeating, "lines": make_lines,
         "database": make_database, "pairs": make_pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("bytes", type=int)
    options = parser.parse_args()
    KINDS[options.kind](options.path, options.bytes)
    print("{}")


if __name__ == "__main__":
    main()
