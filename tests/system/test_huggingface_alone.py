"""An exported model where this package cannot be imported: transformers loads it, and translates as the run does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from harness import make_toy, tiny_config

from translate.data.batching import collate_sources
from translate.decoding import Translator
from translate.exchange.huggingface import write_huggingface

pytest.importorskip("transformers", reason="the extra `huggingface` is not installed")

# -I leaves the working directory and PYTHONPATH out; an import of an installed `translate` fails.
ALONE = """
import json, sys
sys.modules["translate"] = None
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder, sources = json.load(sys.stdin)
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
batch = tokenizer(sources, return_tensors="pt", padding=True)
with torch.inference_mode():
    logits = model(**batch, decoder_input_ids=torch.tensor([[2, 9, 8, 7]] * len(sources))).logits
found = {beams: model.generate(**batch, num_beams=beams, max_length=40) for beams in (1, 5)}
texts = {beams: tokenizer.batch_decode(ids, skip_special_tokens=True) for beams, ids in found.items()}
print(json.dumps({"module": type(model).__module__, "ids": batch["input_ids"].tolist(), "texts": texts}))
torch.save(logits, sys.argv[1])
"""


@pytest.mark.parametrize("shape", [{"positions": "rotary"}, {"positions": "relative", "activation": "swiglu"}], ids=str)
def test_translates_as_the_run_does(tmp_path: Path, shape: dict[str, str]) -> None:
    sizes = {"d_model": 32, "num_heads": 4, "d_ff": 64, "norm": "pre", "dropout": 0.0, "initialization": "xavier"}
    search = {"length_penalty_kind": "average", "length_penalty": 1.0, "max_length_factor": 2.0}
    config = tiny_config(model=sizes | shape, decoding=search | {"max_length_constant": 20})
    toy = make_toy(tmp_path / "run", config, num_steps=400)
    model, tokenizers, sources = toy.model, toy.tokenizers, toy.sources
    (folder := tmp_path / "model").mkdir()
    write_huggingface(model, tokenizers, config, folder)

    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "cache"), "PATH": os.environ["PATH"]}
    result = subprocess.run(
        [sys.executable, "-I", "-c", ALONE, str(tmp_path / "logits.pt")],
        input=json.dumps([str(folder), sources]),
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=100,
    )
    assert result.returncode == 0, result.stderr
    alone = json.loads(result.stdout)
    assert alone["module"].startswith("transformers_modules.") and alone["module"].endswith(".modeling_translate")
    ids = collate_sources(tokenizers.source.encode_lines(sources, num_threads=1))
    assert alone["ids"] == ids.tolist()
    with torch.inference_mode():
        logits = model(ids, torch.tensor([[2, 9, 8, 7]] * len(sources)))
    torch.testing.assert_close(torch.load(tmp_path / "logits.pt"), logits, atol=1e-4, rtol=0)
    for beam_size, texts in alone["texts"].items():
        ours = Translator(model, tokenizers, config.decoding).translate(sources, beam_size=int(beam_size))
        assert texts == [translation.text for translation in ours]
