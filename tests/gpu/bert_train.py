"""Trains BERT-large for some steps in this process, on one allocator, and writes what it saw.

Everything that could make two runs differ is fixed: weights and batches by seed, deterministic
algorithms, cuBLAS's workspace, no TF32. What is left is the allocator.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import statistics
import sys
import time
import warnings

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

from cenote_lib import Cenote  # noqa: E402  (the variable above comes first)

VARIANTS = ("native", "expandable", "mempool", "global")

# PyTorch may free a block through an allocator until the process ends.
KEPT_ALIVE = []


def fix_everything(torch) -> None:
    """Two runs of the same program give the same bits."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    # What PyTorch would fill to hide uninitialised memory stays as the allocator gave it.
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    # A MemPool serves the thread that entered it: the backward pass must run there too.
    torch.autograd.set_multithreading_enabled(False)


def install_global(torch, cenote: Cenote, shim: str) -> None:
    """Makes cenote the allocator of the whole process; before any use of CUDA."""
    memory = torch.cuda.memory
    pluggable = memory.CUDAPluggableAllocator(shim, "cenote_shim_alloc", "cenote_shim_free")
    hooks = pluggable._allocator
    hooks.set_record_stream_fn(cenote.address("cenote_torch_record_stream"))
    hooks.set_reset_fn(cenote.address("cenote_torch_reset"))
    hooks.set_memory_fraction_fn(cenote.address("cenote_torch_memory_fraction"))
    hooks.set_base_alloc_fn(cenote.address("cenote_torch_base_alloc"))
    memory.change_current_allocator(pluggable)
    KEPT_ALIVE.append(pluggable)


def make_pool(torch, cenote: Cenote):
    """A MemPool whose segments come from cenote."""
    memory = torch.cuda.memory
    pluggable = memory.CUDAPluggableAllocator(
        cenote.path, "cenote_torch_alloc", "cenote_torch_free"
    )
    KEPT_ALIVE.append(pluggable)
    return torch.cuda.MemPool(pluggable.allocator())


def build(torch, layers: int):
    """BERT-large from its configuration, with random weights, and its optimiser."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        hidden_size=1024,
        num_hidden_layers=layers,
        num_attention_heads=16,
        intermediate_size=4096,
        attn_implementation="eager",
    )
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = BertForMaskedLM(config)
    model.to("cuda").train()
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4), config.vocab_size


def batches(torch, steps: int, batch: int, vocabulary: int):
    """Synthetic batches whose sequence length changes from step to step."""
    lengths = random.Random(7)
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        shape = (batch, 16 * lengths.randint(8, 32))
        tokens = torch.randint(0, vocabulary, shape, generator=generator)
        yield tokens.cuda(), tokens.roll(1, dims=1).cuda()


def checksum(torch, model) -> int:
    """Sum of all parameters' bits: exact, and different if any bit is."""
    total = 0
    for p in model.parameters():
        total += int(p.detach().view(torch.int32).to(torch.int64).sum().item())
    return total


def train(torch, steps: int, batch: int, layers: int) -> dict:
    """Runs the steps; everything it allocated is garbage when it returns."""
    model, optimizer, vocabulary = build(torch, layers)
    torch.manual_seed(2)
    losses, times, used = [], [], 0
    for tokens, labels in batches(torch, steps, batch, vocabulary):
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        losses.append(loss.item().hex())
        free, total = torch.cuda.mem_get_info()
        used = max(used, total - free)
    return {
        "losses": losses,
        "checksum": checksum(torch, model),
        "step_ms": statistics.median(times[len(times) // 4 :]) * 1e3,
        "device_used_bytes": used,
    }


def used_now(torch) -> int:
    """Bytes in use on the device, as the driver says."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free


def probe_oom(torch) -> str:
    """A limit must surface as torch.OutOfMemoryError, and leave everything usable."""
    torch.cuda.set_per_process_memory_fraction(0.1)
    total = torch.cuda.mem_get_info()[1]
    try:
        torch.empty(int(total * 0.5), dtype=torch.uint8, device="cuda")
        return "no error at all"
    except torch.OutOfMemoryError as error:
        text = str(error)
    except RuntimeError as error:
        return f"RuntimeError, not OutOfMemoryError: {error}"
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    x = torch.ones(1 << 20, device="cuda")
    return "ok" if float(x.sum()) == 1 << 20 and "cenote" in text.lower() else f"text: {text}"


def probe_record_stream(torch) -> str:
    """A block used on a side stream is not reused before that use ends, if it is recorded."""
    side = torch.cuda.Stream()
    for _ in range(5):
        x = torch.ones(16 << 20, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            copy = x + 1
        x.record_stream(side)
        del x
        y = torch.full((16 << 20,), float("nan"), device="cuda")
        torch.cuda.synchronize()
        if not bool((copy == 2).all()):
            return "the side stream read the next owner's values"
        del y, copy
    return "ok"


def probe_graph(torch) -> str:
    """A captured graph keeps its memory while eager tensors come and go."""
    source = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (source * 2 + 1).sqrt() * 3
    eager = [torch.full((1 << 20,), float("nan"), device="cuda") for _ in range(32)]
    graph.replay()
    torch.cuda.synchronize()
    same = bool(torch.equal(result, (source * 2 + 1).sqrt() * 3))
    untouched = all(bool(t.isnan().all()) for t in eager)
    return "ok" if same and untouched else f"replay right: {same}, eager untouched: {untouched}"


def attempt(probe, torch) -> str:
    """A probe that raises is a result, not the end of the run."""
    try:
        return probe(torch)
    except Exception as error:  # whatever PyTorch raises belongs in the table
        return f"{type(error).__name__}: {error}"


def figures(torch, variant: str, cenote) -> dict:
    """What the run held at its peak, by PyTorch's account and by cenote's."""
    out = {}
    if cenote:
        out["cenote"] = stats = cenote.stats()
        out["peak_held_bytes"] = stats["peak_held_bytes"]
        out["peak_live_bytes"] = stats["peak_live_bytes"]
    if variant != "global":
        out["torch_peak_reserved_bytes"] = torch.cuda.max_memory_reserved()
        out["peak_live_bytes"] = torch.cuda.max_memory_allocated()
        out.setdefault("peak_held_bytes", out["torch_peak_reserved_bytes"])
    return out


def empty(torch, cenote) -> dict:
    """torch.cuda.empty_cache(), and what the device says before and after."""
    out = {"before_empty_bytes": used_now(torch)}
    torch.cuda.empty_cache()
    out["after_empty_bytes"] = used_now(torch)
    if cenote:
        out["held_after_empty_bytes"] = cenote.stats()["held_bytes"]
        out["live_after_empty_bytes"] = cenote.stats()["live_bytes"]
        cenote.empty_cache()
        out["after_cenote_empty_bytes"] = used_now(torch)
    return out


def run(args) -> dict:
    """One variant, from start to empty cache."""
    if args.variant == "mempool":
        # PyTorch caches for itself here: what it frees goes straight back to the device.
        os.environ["CENOTE_DECAY"] = "0"
    cenote = Cenote() if args.variant in ("mempool", "global") else None
    if args.variant == "expandable":
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    fix_everything(torch)
    if args.variant == "global":
        install_global(torch, cenote, args.shim)
    torch.cuda.init()
    torch.ones(1, device="cuda").sum().item()
    result = {"variant": args.variant, "base_bytes": used_now(torch)}
    pool = make_pool(torch, cenote) if args.variant == "mempool" else None
    with torch.cuda.use_mem_pool(pool) if pool else contextlib.nullcontext():
        result.update(train(torch, args.steps, args.batch, args.layers))
    result.update(figures(torch, args.variant, cenote))
    gc.collect()
    del pool
    gc.collect()
    result.update(empty(torch, cenote))
    if args.variant == "global":
        result["probes"] = {
            "out of memory": attempt(probe_oom, torch),
            "record_stream": attempt(probe_record_stream, torch),
            "graph": attempt(probe_graph, torch),
        }
    return result


def main() -> int:
    """Parses, runs, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--shim", default="libcenote_torch.so")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=24)
    args = parser.parse_args()
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = run(args)
    result["warnings"] = sorted(
        {str(w.message).splitlines()[0][:160] for w in caught if "determin" in str(w.message)}
    )
    result["seconds"] = time.perf_counter() - start
    with open(args.out, "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
