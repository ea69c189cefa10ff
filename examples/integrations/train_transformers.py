"""transformers on OpenCL devices: Trainer in three precisions, pipeline(), device_map="auto". Models are small and
made here, so nothing is downloaded.

    python examples/integrations/train_transformers.py
    torchrun --nproc-per-node 2 examples/integrations/train_transformers.py train      # a process for each device
"""
import sys
import tempfile

import torch

import torch_ocl.integrations  # noqa: F401 (makes transformers know ocl)
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel,
                          PreTrainedTokenizerFast, Trainer, TrainingArguments, pipeline)


class Sentences(torch.utils.data.Dataset):
    """The label says whether the first number is odd."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict:
        numbers = torch.randint(0, 50, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": numbers, "labels": numbers[0] % 2}


def train(**precision) -> None:
    torch.manual_seed(0)
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, per_device_train_batch_size=16, num_train_epochs=2,
                                      report_to=[], save_strategy="no", disable_tqdm=True, **precision)
        trainer = Trainer(model=BertForSequenceClassification(config), args=arguments, train_dataset=Sentences())
        loss = trainer.train().training_loss
        assert arguments.device.type == "ocl" and trainer.model.device.type == "ocl"
        print(f"Trainer on {arguments.device}, {precision or 'float32'}: loss {loss:.4f}, "
              f"evaluated {trainer.evaluate(Sentences())['eval_loss']:.4f}")


def generate() -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "c": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[UNK]", eos_token="[UNK]")
    model = GPT2LMHeadModel(GPT2Config(vocab_size=4, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
                                       eos_token_id=0))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for where in ({}, {"device_map": "auto"}, {"device": "ocl:0"}):
            generator = pipeline("text-generation", model=folder, **where)
            assert generator.device.type == generator.model.device.type == "ocl"
            print("pipeline", where, generator.device, generator("a b c", max_new_tokens=4)[0]["generated_text"])


if __name__ == "__main__":
    train()
    train(bf16=True)
    train(fp16=True)
    if "train" not in sys.argv[1:]:
        generate()
