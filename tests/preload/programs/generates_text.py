# Generates text with a language model in a file, which ctransformers (llama.cpp's library, as packaged) maps, and prints
# the words' numbers: generates_text.py MODEL WORDS
import os
import sys

import ctransformers

model = ctransformers.LLM(sys.argv[1], model_type="llama",
                          config=ctransformers.Config(mmap=True, context_length=64, threads=2))
words = model.tokenize("w1 w2 w3")
for number, word in enumerate(model.generate(words, top_k=1, seed=1), 1):
    print(word)
    if number == int(sys.argv[2]):
        break

# Without the interpreter's own end: its last collection of garbage crashes on what the library leaves, with Debian's
# Python 3.11 each time.
sys.stdout.flush()
os._exit(0)
