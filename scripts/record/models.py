"""Programs whose allocations are worth recording: each builds a model from its configuration, with
random weights, and yields steps to run. Nothing is downloaded."""


def bert_large(torch, small):
    """BERT-large training in mixed precision; the sequence length changes from step to step."""
    from transformers import BertConfig, BertForMaskedLM

    shape = {"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256} if small else {
        "hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096}
    config = BertConfig(
        num_attention_heads=shape["hidden_size"] // 64, attn_implementation="eager", **shape
    )
    with torch.device(DEVICE):
        model = BertForMaskedLM(config).to(DEVICE).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(length):
        tokens = torch.randint(0, config.vocab_size, (8, length), device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, [256, 384, 128, 320]


def gpt2_medium(torch, small):
    """GPT-2 medium training in bfloat16; the context length changes from step to step."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"n_embd": 128, "n_layer": 2, "n_head": 2} if small else {
        "n_embd": 1024, "n_layer": 24, "n_head": 16}
    config = GPT2Config(**shape)
    with torch.device(DEVICE):
        model = GPT2LMHeadModel(config).to(DEVICE, torch.bfloat16).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(length):
        tokens = torch.randint(0, config.vocab_size, (4, length), device=DEVICE)
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, [768, 1024, 512, 896]


def resnet50(torch, small):
    """ResNet-50 training; the last batch of an epoch is smaller."""
    from torchvision.models import resnet50 as build

    with torch.device(DEVICE):
        model = build(weights=None).to(DEVICE).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    side = 64 if small else 224

    def step(batch):
        images = torch.randn(2 if small else batch, 3, side, side, device=DEVICE)
        labels = torch.randint(0, 1000, (images.shape[0],), device=DEVICE)
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step, [64, 64, 64, 24, 64]


def llm_generate(torch, small):
    """A Llama-like model that answers two batches of requests; the cache of keys and values grows
    by one token at a time."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2} if small else {
        "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 8}
    heads = shape["hidden_size"] // 64
    config = LlamaConfig(
        vocab_size=32000, num_attention_heads=heads, num_key_value_heads=heads // 2, **shape
    )
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16).eval()

    @torch.no_grad()
    def step(request):
        batch, prompt, answer = request
        if small:
            batch, prompt, answer = 1, 16, 3
        tokens = torch.randint(0, config.vocab_size, (batch, prompt), device=DEVICE)
        cache = None
        for _ in range(answer):
            out = model(
                input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1
            )
            cache = out.past_key_values
            tokens = out.logits[:, -1:].argmax(dim=-1)

    return step, [(8, 1024, 4), (12, 1536, 14), (6, 2048, 14)]


DEVICE = "cuda"
MODELS = {
    "bert-large-train": bert_large,
    "gpt2-medium-train": gpt2_medium,
    "resnet50-train": resnet50,
    "llm-generate": llm_generate,
}
