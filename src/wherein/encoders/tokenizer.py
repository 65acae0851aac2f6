"""open_clip's own tokenizer of word pieces as a tokenizer.json, which needs no open_clip to be read."""

from __future__ import annotations

from typing import Any, Final

PIECES: Final = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
"""How CLIP cuts a text before it joins pieces."""
QUOTES: Final = {"[“”„‟]": '"', "[‘’‚‛]": "'"}
"""Quotation marks that open_clip straightens; the other repairs of its library are for broken encodings."""
START: Final = "<start_of_text>"
END: Final = "<end_of_text>"


def bpe_tokenizer(own: Any) -> Any:
    """The tokenizer of `open_clip.SimpleTokenizer`: texts in lower case, white space joined, begun and ended."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    merges = [pair for pair, _ in sorted(own.bpe_ranks.items(), key=lambda item: item[1])]
    made = Tokenizer(models.BPE(own.encoder, merges, unk_token=END, end_of_word_suffix="</w>"))
    plain = [normalizers.Replace(Regex(curly), straight) for curly, straight in QUOTES.items()]
    joined = [normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip(), normalizers.Lowercase()]
    made.normalizer = normalizers.Sequence([normalizers.NFC(), *plain, *joined])
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}", special_tokens=[(START, own.sot_token_id), (END, own.eot_token_id)]
    )
    return made
