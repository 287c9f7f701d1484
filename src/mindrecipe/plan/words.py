"""What the words of published tables mean: devices, numbers, precision, sharding, recomputation and model families.

Tables name things freely ("A100-40GB class", "8K", "full (--checkpoint-activations ...)", "FP8-CS"): each function reads one column, and
raises CannotPrice naming what it can't read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from mindrecipe.models.hardware import CATALOGUE, REFERENCE, Hardware
from mindrecipe.plan.job import CannotPrice, Recompute, Sharding

_DEVICES = (
    (r"gb300", "gb300"),
    (r"gb200", "gb200"),
    (r"b300", "b300"),
    (r"b200", "b200"),
    (r"h200", "h200"),
    (r"h[18]00", "h100_80gb"),
    (r"a[18]00.*40\s*gb|40\s*gb.*a[18]00", "a100_40gb"),
    (r"a[18]00", "a100_80gb"),
    (r"v100", "v100_32gb"),
    (r"4090", "rtx_4090"),
    (r"a6000", "rtx_a6000"),
    (r"910c|a3 superpod|atlas 900 a3|800t a3", "ascend_910c_package"),
    (r"910b1", "ascend_910b1"),
    (r"910b3", "ascend_910b3"),
    (r"910b4", "ascend_910b4"),
    (r"910b2|910b|atlas \d+t? a2", "ascend_910b2"),
    (r"910", "ascend_910a"),
)

#: vocabularies that tables leave out, as the models' own configurations state them; they weigh little in time
_VOCABULARIES = (
    (r"llama-?_?3|nemotron", 128256),
    (r"llama|mistral|mixtral|vicuna|alpaca", 32000),
    (r"baichuan2", 125696),
    (r"baichuan", 64000),
    (r"qwen", 151936),
    (r"internlm", 103168),
    (r"aquila", 100008),
    (r"yi", 64000),
    (r"bloom", 250880),
    (r"gemma", 256000),
    (r"gpt|opt", 51200),
)
_DENSE = (
    r"^(code)?llama|internlm|baichuan|qwen_|qwen(1\.5|2)_|chatglm|glm4_|bloom|gpt-?3|yi_|aquila|gemma|mistral|opt|mpt"
    r"|minicpm_\d+b|nemotron-8b"
)
NO_RECOMPUTE = "recompute is not stated: none assumed"
_NOTHING = ("", "-", "--", "—", "n/a", "na", "none", "null", "?", "unknown")
#: models that are no stack of decoder layers, by name
_OTHER_KINDS = (
    (r"^(m?t5|ul2|bart|pegasus|flan)|[-_ ]t5\b|encoder[-_ ]decoder|whisper|nllb", "an encoder and a decoder"),
    (r"bert|^vit|[-_ ]vit\b|clip|swin|resnet|dino", "an encoder, not a decoder"),
    (r"mamba|jamba|rwkv|hyena|nemotron[-_ ]?(h\b|3)|zamba|griffin|granite[-_ ]?4", "state-space layers"),
    (r"llava|[-_ ]?vl\b|vision|multi-?modal|diffusion|\bdit\b|unet|sora|flux", "a tower for images"),
)
_EXPERTS = (
    r"moe|[-_ ]a\d+(\.\d+)?b|deepseek[-_ ]?(v[23]|r1)|gpt[-_ ]?oss|kimi|mixtral|dbrx|grok|arctic|glm[-_ ]?4\.[5-9]|llama[-_ ]?4|switch"
)
_FAMILIES_GATED = r"llama|mistral|mixtral|qwen|yi|internlm|baichuan|aquila|glm|gemma|deepseek"


def device(text: str) -> Hardware:
    """The catalogue's device that a table means."""
    lower = text.lower()
    size = re.search(r"\b(\d+)\s*gi?b\b", lower)
    for pattern, name in _DEVICES:
        if re.search(pattern, lower):
            found = CATALOGUE.get(name) or REFERENCE[name]
            return replace(found, memory_gb=int(size[1])) if size and found.memory_gb and int(size[1]) < found.memory_gb else found
    raise CannotPrice(f"device {text!r} is not in the hardware catalogue")


def integer(text: str) -> int | None:
    """A count: 4096, 4096.0, 8K (of 1024) or 1.5e3; None where the cell is empty or holds a dash."""
    text = text.strip().replace(",", "")
    if text.lower() in _NOTHING:
        return None
    kilo = re.fullmatch(r"(\d+(?:\.\d+)?)\s*[kK]", text)
    try:
        count = int(float(kilo[1]) * 1024) if kilo else int(float(text))
    except (ValueError, OverflowError):
        raise CannotPrice(f"{text!r} is no number") from None
    if count < 0:
        raise CannotPrice(f"{text} is below 0")
    return count


def number(text: str) -> float | None:
    """A measured figure with or without its unit ("~35 GB", "45 %"); None where there is none, or where it says that memory ran out."""
    text = text.strip().replace(",", "")
    if text.lower() in _NOTHING or out_of_memory(text):
        return None
    found = re.fullmatch(
        r"[~≈]?\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)\s*(%|gi?b|[a-z]*flops?(?:/s)?|tok[a-z]*/s.*|\(.*\))?", text, re.IGNORECASE
    )
    if found is None:
        raise CannotPrice(f"{text!r} is no number")
    return float(found[1])


def out_of_memory(text: str) -> bool:
    """Whether a cell says that a job ran out of memory."""
    lower = text.lower()
    said = re.search(
        r"\booms?\b|\boom-?kill|out[- ]of[- ](device |gpu |cuda |npu |hbm )?memory|ran out of (gpu |device )?memory|does(n't| not) fit",
        lower,
    )
    return bool(said) and not re.search(
        r"(close to|before|no|without|not|avoids?|until|prevents?) (any )?(an )?(oom|out[- ]of[- ]memory)", lower
    )


def parameters(text: str, model: str) -> float | None:
    """Parameters that a row states, in its column or in the name of a dense model; None where neither tells."""
    stated = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:e\d+)?)\s*([BMbm]?)\s*", text)
    if stated:
        return float(stated[1]) * {"b": 1e9, "m": 1e6}.get(stated[2].lower(), 1)
    named = re.search(r"(?<![\dx.])(\d+(?:\.\d+)?)\s*[Bb]\b", model.replace("_", " "))
    return float(named[1]) * 1e9 if named and "truncated" not in model else None


def is_dense(model: str) -> bool:
    """Whether a model's name is that of a family without experts, so that its size in the name is what a token is multiplied with."""
    return bool(re.search(_DENSE, model.lower())) and not re.search(r"\d+x\d+", model)


def other_kind(model: str) -> str | None:
    """What a model has beside layers of a decoder; None where its name tells nothing of the kind."""
    return next((what for pattern, what in _OTHER_KINDS if re.search(pattern, model.lower())), None)


def has_experts(model: str) -> bool:
    """Whether a model's name is that of one with experts."""
    return bool(re.search(_EXPERTS, model.lower()))


def gated(model: str, feed_forward: int, hidden: int, kv_heads: int, heads: int) -> bool:
    """Three feed-forward matrices (SwiGLU) or two: by the family's name, else by GPT's rule of four times the hidden size."""
    if re.search(_FAMILIES_GATED, model.lower()):
        return True
    return feed_forward != 4 * hidden or kv_heads != heads


def vocabulary(model: str) -> int | None:
    """The vocabulary of a model that a table names without it."""
    return next((size for pattern, size in _VOCABULARIES if re.search(pattern, model.lower())), None)


def sharding(text: str) -> Sharding:
    """What a column on ZeRO or FSDP says; CannotPrice for words that are not known."""
    lower = text.lower().strip()
    stage = re.search(r"(?:\b(?:zero|z|stage|fsdp)[-_ ]*(?:dp[-_ ]*)?(?:stage[-_ ]*)?|^)([0-3])\b", lower)
    if re.search(r"shard.?grad", lower):
        return "gradients"
    if stage and not re.search(r"fsdp [0-9]", lower):
        return ("none", "optimizer", "gradients", "full")[int(stage[1])]
    if re.search(r"fsdp|full.?shard|hsdp|hybrid.?shard", lower):
        return "full"
    if re.search(r"zero|(distributed|sharded|dist|parallel)[- _]opt|optimizer", lower):
        return "optimizer"
    if lower in _NOTHING or lower in ("no", "false", "off", "ddp", "dp", "no_shard", "replicated") or lower.startswith("flags:"):
        return "none"
    raise CannotPrice(f"zero_or_fsdp {text!r} is not understood")


def compute(text: str) -> str:
    """The dtype whose peak a precision's name means."""
    lower = text.lower()
    if re.search(r"fp4", lower):
        return "float4"
    if re.search(r"fp8", lower):
        return "float8"
    if re.search(r"fp32|float32|tf32", lower) and not re.search(r"bf16|fp16|amp", lower):
        return "float32"
    return "float16" if "fp16" in lower and "bf16" not in lower else "bfloat16"


def recompute(text: str, stages: int) -> tuple[Recompute, str | None]:
    """(what is computed again, an assumption that was made)."""
    lower = re.sub(r"[_-]", " ", text.lower()).strip()
    layers = re.search(r"layers \[([\d, ]+)\]", lower)
    if layers:
        return Recompute(policy="selective", full_layers=tuple(int(word) for word in layers[1].split(","))), None
    block = re.search(r"block (\d+)", lower)
    if block:
        return Recompute(policy="none", full_layers=(int(block[1]),) * stages), None
    if "per stage" in lower:
        return Recompute(policy="none"), "recompute layers of each stage are not in the column: none assumed"
    if re.search(r"every|each other|\d\s*%|\bpart|\d+ (of|/) ?\d+|mlp|\bffn", lower):
        return Recompute(policy="none"), f"recompute {text!r} is not understood: none assumed"
    if re.match(r"full|true|yes|on\b|all\b|(activation |gradient )?checkpoint", lower):
        return Recompute(policy="full"), None
    if "selective" in lower or "attention" in lower:
        return Recompute(policy="attention"), None
    if lower in ("none", "false", "no", "off", "0"):
        return Recompute(policy="none"), None
    return Recompute(policy="none"), f"recompute {text!r} is not understood: none assumed" if lower not in _NOTHING else NO_RECOMPUTE
