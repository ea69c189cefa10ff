"""sentence-transformers on an OpenCL device: the default. The model is small and made here."""
import torch

import torch_ocl.integrations  # noqa: F401 (makes sentence-transformers know ocl)
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers


def main() -> None:
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1, "dog": 2, "car": 3}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=16)])
    assert model.device.type == "ocl", model.device
    embeddings = model.encode(["cat dog", "dog cat", "car"], convert_to_tensor=True)
    similar = model.similarity(embeddings, embeddings)
    assert embeddings.device.type == "ocl" and similar[0, 1] > similar[0, 2]
    print(model.device, [round(value, 3) for value in similar[0].tolist()])


if __name__ == "__main__":
    main()
