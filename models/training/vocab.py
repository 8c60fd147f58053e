"""The two word-level tokenizers, made from the captions' vocabulary."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from .captions import UNKNOWN_WORD, all_words
from .untyped import PreTrainedTokenizerFast, Untyped

CLIP_TOKENS = 32
T5_TOKENS = 24
CLIP_SPECIALS = ("<pad>", "<bos>", "<unk>", "<eos>")
"""In the order of their ids; the end must not be 2, which takes CLIP's legacy way of pooling."""
T5_SPECIALS = ("<pad>", "<eos>", "<unk>")


def make_clip_tokenizer() -> Untyped:
    """The tokenizer of the first text encoder: start, words, end, padding."""
    tokenizer = _word_level(CLIP_SPECIALS, "<bos> $A <eos>")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **_named(CLIP_SPECIALS),
        model_max_length=CLIP_TOKENS,
    )


def make_t5_tokenizer() -> Untyped:
    """The tokenizer of the second text encoder: words, end, padding."""
    return PreTrainedTokenizerFast(
        tokenizer_object=_word_level(T5_SPECIALS, "$A <eos>"),
        **_named(T5_SPECIALS),
        model_max_length=512,
    )


def _named(specials: tuple[str, ...]) -> dict[str, str]:
    """The special tokens by the names that transformers has for them."""
    return {f"{special.strip('<>')}_token": special for special in specials}


def _word_level(specials: tuple[str, ...], template: str) -> Tokenizer:
    words = [word for word in all_words() if word != UNKNOWN_WORD]
    vocab = {word: index for index, word in enumerate([*specials, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocab, "<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[^\p{L}\p{N}]+"), " "),
            normalizers.Strip(),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    ends = [(token, vocab[token]) for token in ("<bos>", "<eos>") if token in specials]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=ends)
    tokenizer.add_special_tokens(list(specials))
    return tokenizer
