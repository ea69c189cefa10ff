"""Compares models of the package transformers on an OpenCL device with the CPU: outputs, gradients, generated tokens.

Each model has the architecture of its family, few and narrow layers, and random weights. With attention computed step
by step ("eager") and by PyTorch's own operator ("sdpa"), with padded sequences, it takes one training step forward and
backward; models that write text then generate it greedily, by beams, and, where they offer it, with a cache of fixed
size. In float16 and bfloat16 a model may err by as much as twice what it does in that type on the CPU.
"""
from __future__ import annotations

import argparse
import copy
import sys
import time
from dataclasses import dataclass, field

import torch

from torch_ocl.validate import compare_gradients, largest, synchronize, tensors_of

WORDS = 99
TINY = dict(vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64)
GROUPED = TINY | dict(num_key_value_heads=2, head_dim=16)
IMAGE = dict(image_size=32, patch_size=8, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
             num_attention_heads=4)
SPEECH = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, conv_dim=(32, 32, 32),
              conv_stride=(5, 2, 2), conv_kernel=(10, 3, 2), num_conv_pos_embeddings=16,
              num_conv_pos_embedding_groups=4,
              vocab_size=32, mask_time_prob=0.0)
SEQ2SEQ = dict(vocab_size=WORDS, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
               decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128)


@dataclass(frozen=True)
class Model:
    """Class, options of its configuration and kind of input. `writes`: it generates text."""
    architecture: str
    inputs: str
    options: dict
    writes: bool = False


def writer(architecture, **options):
    return Model(architecture, "text", options, writes=True)


MODELS = {
    "bert": Model("BertForMaskedLM", "text", TINY),
    "roberta": Model("RobertaForSequenceClassification", "text", TINY | dict(pad_token_id=0)),
    "distilbert": Model("DistilBertForQuestionAnswering", "text",
                        dict(vocab_size=WORDS, dim=64, hidden_dim=128, n_layers=2, n_heads=4)),
    "albert": Model("AlbertForMaskedLM", "text", TINY | dict(embedding_size=32)),
    "electra": Model("ElectraForPreTraining", "text", TINY | dict(embedding_size=32)),
    "deberta": Model("DebertaV2ForTokenClassification", "text",
                     TINY | dict(relative_attention=True, position_buckets=16, pos_att_type=["p2c", "c2p"],
                                 norm_rel_ebd="layer_norm", share_att_key=True)),
    "modernbert": Model("ModernBertForMaskedLM", "text",
                        TINY | dict(num_hidden_layers=4, local_attention=8, pad_token_id=0, reference_compile=False)),
    "longformer": Model("LongformerForMaskedLM", "text", TINY | dict(attention_window=8, max_position_embeddings=80)),
    # Without hashes, which are random; texts of whole chunks.
    "reformer": Model("ReformerForMaskedLM", "text",
                      dict(vocab_size=WORDS, hidden_size=64, attention_head_size=16, num_attention_heads=4,
                           feed_forward_size=128, attn_layers=["local", "local"], local_attn_chunk_length=3,
                           axial_pos_embds=False, max_position_embeddings=64, is_decoder=False)),
    "fnet": Model("FNetForMaskedLM", "plain text", TINY | dict(use_tpu_fourier_optimizations=False)),
    "xlnet": Model("XLNetLMHeadModel", "text", dict(vocab_size=WORDS, d_model=64, n_layer=2, n_head=4, d_inner=128)),
    "gpt2": writer("GPT2LMHeadModel", vocab_size=WORDS, n_embd=64, n_layer=2, n_head=4, n_positions=64),
    "gpt_neox": writer("GPTNeoXForCausalLM", **TINY),
    "opt": writer("OPTForCausalLM", vocab_size=WORDS, hidden_size=64, ffn_dim=128, num_hidden_layers=2,
                  num_attention_heads=4, word_embed_proj_dim=64, max_position_embeddings=64),
    "bloom": writer("BloomForCausalLM", vocab_size=WORDS, hidden_size=64, n_layer=2, n_head=4),
    "falcon": writer("FalconForCausalLM", vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, num_attention_heads=4),
    "llama": writer("LlamaForCausalLM", **GROUPED),
    "mistral": writer("MistralForCausalLM", **GROUPED, sliding_window=8),
    "mixtral": writer("MixtralForCausalLM", **GROUPED, num_local_experts=4, num_experts_per_tok=2),
    "qwen2": writer("Qwen2ForCausalLM", **GROUPED),
    "qwen3": writer("Qwen3ForCausalLM", **GROUPED),
    "qwen3_moe": writer("Qwen3MoeForCausalLM", **GROUPED, num_experts=4, num_experts_per_tok=2,
                        moe_intermediate_size=32),
    "qwen3_next": writer("Qwen3NextForCausalLM", **GROUPED, num_experts=4, num_experts_per_tok=2,
                         moe_intermediate_size=32,
                         shared_expert_intermediate_size=32, linear_num_key_heads=2, linear_num_value_heads=4,
                         linear_key_head_dim=16, linear_value_head_dim=16,
                         layer_types=["linear_attention", "full_attention"]),
    "gemma": writer("GemmaForCausalLM", **GROUPED),
    "gemma2": writer("Gemma2ForCausalLM", **GROUPED, sliding_window=8),
    "gemma3": writer("Gemma3ForCausalLM", **GROUPED, sliding_window=8),
    "gptj": writer("GPTJForCausalLM", vocab_size=WORDS, n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8),
    "cohere": writer("CohereForCausalLM", **GROUPED),
    "olmo2": writer("Olmo2ForCausalLM", **GROUPED),
    "mpt": writer("MptForCausalLM", vocab_size=WORDS, d_model=64, n_layers=2, n_heads=4, max_seq_len=64),
    "phi": writer("PhiForCausalLM", **TINY),
    "phi3": writer("Phi3ForCausalLM", **TINY, pad_token_id=0),
    "gpt_oss": writer("GptOssForCausalLM", **GROUPED, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    "deepseek_v3": writer("DeepseekV3ForCausalLM", **TINY, num_key_value_heads=4, n_routed_experts=4,
                          num_experts_per_tok=2,
                          n_group=2, topk_group=1, moe_intermediate_size=32, q_lora_rank=32, kv_lora_rank=32,
                          qk_rope_head_dim=8,
                          qk_nope_head_dim=8, v_head_dim=16, first_k_dense_replace=1),
    "mamba": writer("MambaForCausalLM", vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, state_size=8),
    "mamba2": writer("Mamba2ForCausalLM", vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, state_size=8,
                     num_heads=8,
                     head_dim=16, n_groups=2, chunk_size=8),
    "rwkv": writer("RwkvForCausalLM", vocab_size=WORDS, hidden_size=64, num_hidden_layers=2, context_length=64),
    "t5": Model("T5ForConditionalGeneration", "seq2seq",
                dict(vocab_size=WORDS, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                     decoder_start_token_id=0),
                writes=True),
    "bart": Model("BartForConditionalGeneration", "seq2seq", SEQ2SEQ | dict(max_position_embeddings=64), writes=True),
    "led": Model("LEDForConditionalGeneration", "seq2seq",
                 SEQ2SEQ | dict(attention_window=8, max_encoder_position_embeddings=64,
                                max_decoder_position_embeddings=64), writes=True),
    "whisper": Model("WhisperForConditionalGeneration", "spectrum",
                     SEQ2SEQ | dict(num_mel_bins=16, max_source_positions=20, max_target_positions=40, pad_token_id=0,
                                    bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=None,
                                    begin_suppress_tokens=None), writes=True),
    "wav2vec2": Model("Wav2Vec2ForCTC", "sound", SPEECH),
    "hubert": Model("HubertForSequenceClassification", "sound", SPEECH),
    "vit": Model("ViTForImageClassification", "image", IMAGE),
    "deit": Model("DeiTForImageClassification", "image", IMAGE),
    "vit_mae": Model("ViTMAEForPreTraining", "masked image",
                     IMAGE | dict(decoder_hidden_size=32, decoder_intermediate_size=64, decoder_num_hidden_layers=1,
                                  decoder_num_attention_heads=2)),
    "beit": Model("BeitForImageClassification", "image", IMAGE | dict(use_relative_position_bias=True)),
    "dinov2": Model("Dinov2ForImageClassification", "image", IMAGE),
    "convnext": Model("ConvNextForImageClassification", "image", dict(hidden_sizes=[16, 32, 48, 64],
                                                                      depths=[1, 1, 1, 1])),
    "swin": Model("SwinForImageClassification", "image",
                  dict(image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4)),
    "segformer": Model("SegformerForSemanticSegmentation", "image",
                       dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 2, 4],
                            decoder_hidden_size=32)),
    "detr": Model("DetrForObjectDetection", "image",
                  dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                       decoder_attention_heads=4,
                       encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=10, num_labels=5)),
    "clip": Model("CLIPModel", "pair", dict(text_config=TINY | dict(eos_token_id=98), vision_config=IMAGE,
                                            projection_dim=32)),
    "blip": Model("BlipForImageTextRetrieval", "pair", dict(text_config=TINY | dict(encoder_hidden_size=64),
                                                            vision_config=IMAGE, image_text_hidden_size=32)),
    "siglip": Model("SiglipModel", "pair", dict(text_config=TINY, vision_config=IMAGE)),
    "sam": Model("SamModel", "prompt",
                 dict(vision_config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, image_size=32,
                                         patch_size=4, output_channels=16, global_attn_indexes=[1], window_size=4,
                                         mlp_dim=64, num_pos_feats=8),
                      prompt_encoder_config=dict(hidden_size=16, image_size=32, patch_size=4, mask_input_channels=4),
                      mask_decoder_config=dict(hidden_size=16, mlp_dim=32, num_attention_heads=4,
                                               iou_head_hidden_dim=16))),
}


@dataclass(frozen=True)
class Limits:
    """Largest right relative L2 errors of outputs, of the whole gradient and of one parameter's gradient."""
    output: float
    gradient: float
    parameter: float


LIMITS = {
    torch.float64: Limits(1e-10, 1e-9, 1e-8),
    torch.float32: Limits(1e-4, 1e-4, 1e-3),
    torch.float16: Limits(3e-2, 5e-2, 3e-1),
    torch.bfloat16: Limits(1e-1, 3e-1, 1.0),
}


COLUMNS = ("output", "gradient", "parameter")


@dataclass
class Report:
    """One row of the table: relative errors of one way of attention, whether the texts are the same, times,
    fallbacks."""
    model: str
    attention: str
    output: float = 0.0
    gradient: float = 0.0
    parameter: float = 0.0
    worst_parameter: str = ""
    allowed: tuple = (0.0, 0.0, 0.0)   # twice the errors of the CPU in this type
    texts: str = ""           # ways of generating; those whose tokens differ end in "!"
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    fallbacks: dict = field(default_factory=dict)
    error: str = ""

    def misses(self, limits):
        found = [name for name, allowed in zip(COLUMNS, self.allowed)
                 if not getattr(self, name) < max(getattr(limits, name), allowed)]
        found += ["texts"] if "!" in self.texts else []
        found += ["fallbacks"] if self.fallbacks else []
        return ["error"] if self.error else found


def make_model(name, attention):
    """The model with fixed random weights, without dropout, and that attention; None where it has no such way."""
    import transformers

    model = MODELS[name]
    architecture = getattr(transformers, model.architecture)
    if attention == "sdpa" and not getattr(architecture, "_supports_sdpa", False):
        return None
    config = architecture.config_class(**copy.deepcopy(model.options))
    torch.manual_seed(0)
    made = architecture._from_config(config, attn_implementation=attention)
    for module in made.modules():
        if isinstance(module, torch.nn.modules.dropout._DropoutNd):
            module.p = 0.0
        for rate in vars(module):
            if ("dropout" in rate or "drop" in rate) and isinstance(getattr(module, rate), float):
                setattr(module, rate, 0.0)
    for option in [o for o in vars(config) if "dropout" in o or o.endswith("pdrop") or o == "layerdrop"]:
        if isinstance(getattr(config, option), float):
            setattr(config, option, 0.0)
    return made


def make_inputs(kind, dtype, longer=0):
    """Two examples, the second shorter where the model knows padding. `longer`: so many more words, or 100 times as
    many samples of sound."""
    generator = torch.Generator().manual_seed(1)

    def words(length):
        return torch.randint(4, WORDS - 2, (2, length), generator=generator)

    def noise(*shape):
        return torch.randn(shape, generator=generator).to(dtype)

    mask = torch.ones(2, 12 + longer, dtype=torch.int64)
    mask[1, :4] = 0   # on the left, where texts to be continued are padded
    if kind == "text":
        return {"input_ids": words(12 + longer), "attention_mask": mask}
    if kind == "seq2seq":
        return {"input_ids": words(12 + longer), "attention_mask": mask.flip(1), "labels": words(7 + longer)}
    if kind == "spectrum":
        return {"input_features": noise(2, 16, 40), "labels": words(7 + longer)}
    if kind == "sound":
        samples = 800 + 100 * longer
        sound_mask = torch.ones(2, samples, dtype=torch.int64)
        sound_mask[1, 600:] = 0
        return {"input_values": noise(2, samples), "attention_mask": sound_mask}
    if kind == "image":
        return {"pixel_values": noise(2, 3, 32, 32)}
    if kind == "masked image":
        return {"pixel_values": noise(2, 3, 32, 32), "noise": noise(2, 16)}
    if kind == "plain text":
        return {"input_ids": words(12 + longer)}
    if kind == "pair":
        ids = words(12 + longer)
        ids[:, -1] = WORDS - 1
        return {"input_ids": ids, "attention_mask": mask.flip(1), "pixel_values": noise(2, 3, 32, 32)}
    if kind == "prompt":
        return {"pixel_values": noise(2, 3, 32, 32),
                "input_points": torch.tensor([[[[8.0, 9.0]]], [[[20.0, 7.0]]]]).to(dtype),
                "input_labels": torch.ones(2, 1, 1, dtype=torch.int64)}
    raise ValueError(f"no inputs of kind {kind}")


@dataclass
class Outcome:
    """What a model did on one device, on the host."""
    outputs: list
    gradients: dict
    texts: dict       # tokens by way of generating
    seconds: float


def generate(model, inputs):
    """Ten tokens in each way of generating."""
    prompt = {name: value for name, value in inputs.items() if name != "labels"}
    ways = {"greedy": {}}
    if not model._is_stateful:
        ways["beams"] = dict(num_beams=3)
    if model._can_compile_fullgraph:
        ways["static"] = dict(cache_implementation="static")
    model.eval()
    return {way: model.generate(**prompt, max_new_tokens=10, min_new_tokens=10, do_sample=False, disable_compile=True,
                                **options).cpu()
            for way, options in ways.items()}


def run(model, inputs, device, dtype, writes):
    """A training step of a copy of the model, the loss a product of all outputs with fixed random numbers. It is taken
    twice, and the second one timed: programs are built in the first."""
    model = copy.deepcopy(model).to(device=device, dtype=dtype).train()
    inputs = {name: value.to(device, dtype if value.is_floating_point() else None) for name, value in inputs.items()}
    for _ in range(2):
        model.zero_grad()
        synchronize(device)
        start = time.perf_counter()
        outputs = tensors_of(model(**inputs))
        generator = torch.Generator().manual_seed(2)
        weights = [torch.randn(output.shape, generator=generator) for output in outputs]
        sum((o * w.to(o)).mean() for o, w in zip(outputs, weights) if o.requires_grad).backward()
        synchronize(device)
        seconds = time.perf_counter() - start
    gradients = {name: p.grad.to("cpu", torch.float64) for name, p in model.named_parameters() if p.grad is not None}
    return Outcome([o.detach().to("cpu", torch.float64) for o in outputs], gradients,
                   generate(model, inputs) if writes else {}, seconds)


def errors(found, expected):
    """Of the outputs, the whole gradient and one parameter's gradient, and that parameter's name."""
    return (largest(found.outputs, expected.outputs), *compare_gradients(found.gradients, expected.gradients))


def validate(name, attention, device, dtype=torch.float32):
    """None where the model has no such attention."""
    model = make_model(name, attention)
    if model is None:
        return None
    report = Report(name, attention)
    exact = torch.promote_types(dtype, torch.float32)
    model = model.to(dtype)
    inputs = make_inputs(MODELS[name].inputs, dtype)
    writes = MODELS[name].writes and dtype == exact   # in narrow types tokens differ by rounding
    expected = run(model, inputs, torch.device("cpu"), exact, writes)
    before = torch.ocl.fallback_report()
    found = run(model, inputs, device, dtype, writes)
    report.fallbacks = {op: n - before.get(op, 0) for op, n in torch.ocl.fallback_report().items()
                        if n > before.get(op, 0)}
    report.output, report.gradient, report.parameter, report.worst_parameter = errors(found, expected)
    if dtype != exact:
        own = run(model, inputs, torch.device("cpu"), dtype, False)
        report.allowed = tuple(2 * error for error in errors(own, expected)[:3])
    report.texts = " ".join(way + ("" if torch.equal(found.texts[way], tokens) else "!")
                            for way, tokens in expected.texts.items())
    report.seconds, report.cpu_seconds = found.seconds, expected.seconds
    return report


def row(report, limits):
    name = f"{report.model:12}{report.attention:6}"
    if report.error:
        return f"{name} FAILED  {report.error}"
    misses = report.misses(limits)
    cells = "".join(f"{getattr(report, column):10.1e}{'!' if column in misses else ' '}" for column in COLUMNS)
    return (f"{name}{cells}{1e3 * report.seconds:9.0f}{1e3 * report.cpu_seconds:9.0f}{len(report.fallbacks):7}  "
            f"{report.texts:22}{'MISSED' if misses else 'ok'}")


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m torch_ocl validate --transformers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"default: {' '.join(MODELS)}")
    parser.add_argument("--device", default="ocl:0", type=torch.device)
    parser.add_argument("--dtype", default="float32", choices=[str(d)[6:] for d in LIMITS])
    parser.add_argument("--attention", action="append", choices=("eager", "sdpa"), help="default: both")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.models if name not in MODELS]:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(MODELS)}")
    try:
        import transformers
    except ImportError as error:
        print(f"The package transformers is needed: pip install transformers ({error})", file=sys.stderr)
        return 2
    transformers.logging.set_verbosity_error()
    dtype = getattr(torch, options.dtype)
    limits = LIMITS[dtype]
    torch.ocl.set_fallback_policy("allow")   # counted and reported instead
    print(f"Relative L2 errors against the CPU, {options.dtype}\n{'':18}" + "".join(f"{name:>10} " for name in COLUMNS)
          + f"{'ms':>9}{'cpu ms':>9}{'fallb.':>7}  generated\n{'limit':18}"
          + "".join(f"{getattr(limits, name):10.0e} " for name in COLUMNS))
    reports = []
    for name in options.models or MODELS:
        for attention in options.attention or ("eager", "sdpa"):
            try:
                report = validate(name, attention, options.device, dtype)
            except Exception as error:   # whatever a model raises, the next one may work
                report = Report(name, attention, error=f"{type(error).__name__}: {str(error).strip()}".splitlines()[0])
            if report is None:
                continue
            reports.append(report)
            print(row(report, limits), flush=True)
            for operator, count in report.fallbacks.items():
                print(f"{'':18}   on the CPU: {operator} ({count} calls)")
    missed = [f"{r.model} ({r.attention})" for r in reports if r.misses(limits)]
    print(f"{len(reports) - len(missed)} of {len(reports)} agree with the CPU"
          + (f"; missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0
