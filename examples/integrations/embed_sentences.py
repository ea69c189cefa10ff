"""sentence-transformers on OpenCL devices: the default. The model is small and made here.

    python examples/integrations/embed_sentences.py
    torchrun --nproc-per-node 2 examples/integrations/embed_sentences.py      # trains with a process for each device
"""
import os
import tempfile

import torch

import torch_ocl.integrations  # noqa: F401 (makes sentence-transformers know ocl)
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers


def train(model) -> None:
    """By its trainer, which is that of transformers; several processes train one model."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.losses import CosineSimilarityLoss

    pairs = [("cat", "dog", 0.9), ("cat", "car", 0.0), ("dog", "car", 0.0)] * 16
    first, second, score = zip(*pairs)
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder, num_train_epochs=2, per_device_train_batch_size=8, learning_rate=0.1, report_to=[],
            save_strategy="no", disable_tqdm=True)
        trainer = SentenceTransformerTrainer(
            model=model, args=arguments, loss=CosineSimilarityLoss(model),
            train_dataset=Dataset.from_dict({"first": first, "second": second, "score": score}))
        assert arguments.device.type == "ocl"
        loss = trainer.train().training_loss
        weight = next(model.parameters()).detach()
        if arguments.world_size > 1:
            other = weight.clone()
            torch.distributed.broadcast(other, 0)
            assert torch.equal(other, weight)
        print(f"trained on {arguments.device}, {arguments.world_size} processes: loss {loss:.4f}")


def main() -> None:
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1, "dog": 2, "car": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=16)])
    assert model.device.type == "ocl", model.device
    if "WORLD_SIZE" in os.environ:
        train(model)
    embeddings = model.encode(["cat dog", "dog cat", "car"], convert_to_tensor=True)
    similar = model.similarity(embeddings, embeddings)
    assert embeddings.device.type == "ocl" and similar[0, 1] > similar[0, 2]
    print(model.device, [round(value, 3) for value in similar[0].tolist()])


if __name__ == "__main__":
    main()
