"""BERT-large with its memory from a torch.cuda.MemPool whose segments cenote provides.

PyTorch's own allocator stays in charge and asks cenote for whole segments; there NULL is an answer
that it understands. Losses must equal the native allocator's to the last bit.
"""

import sys

from bert_compare import compare, options

if __name__ == "__main__":
    sys.exit(compare(options(__doc__), "mempool", {}))
