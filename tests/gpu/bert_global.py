"""BERT-large with cenote as PyTorch's allocator for everything, through bindings/torch/shim.cpp.

Every tensor is a block of cenote. Losses must equal the native allocator's to the last bit; a run
with PyTorch's expandable segments stands beside it.
"""

import sys

from bert_compare import compare, options

if __name__ == "__main__":
    sys.exit(compare(options(__doc__), "global", {"expandable": "expandable"}))
