#!/usr/bin/env python3
"""Writes a tiny llama-architecture model with random weights: the text is gibberish, but really generated.

The vocabulary is SentencePiece-style with all 256 byte tokens, so any prompt can be tokenized, and the file carries
a ChatML template, so chat completions work. The same arguments always give the same file.
"""

import argparse

import gguf
import numpy

SPACE = "\u2581"
CHAT_START, CHAT_END = "<|im_start|>", "<|im_end|>"
TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
WORDS = (
    "the of to in is on and it that for was with as at by from this have not be are or you we they he she but what "
    "when where who how why yes no ok hello world model token edge node slot queue time day year way thing man life "
    "hand part child eye place work week case point number red blue green small large old new good fast slow stream "
    "code data server client answer question"
).split()
EOS = 2
# Ids below this are control and byte tokens: they are made unlikely, so that the text is made of words.
FIRST_TEXT_TOKEN = 3 + 256


def vocabulary():
    """Tokens with score and type, in order of their ids."""
    kind = gguf.TokenType
    tokens = {"<unk>": (0.0, kind.UNKNOWN), "<s>": (0.0, kind.CONTROL), "</s>": (0.0, kind.CONTROL)}
    tokens |= {f"<0x{byte:02X}>": (0.0, kind.BYTE) for byte in range(256)}
    tokens[SPACE] = (-1.0, kind.NORMAL)
    tokens |= {chr(code): (-2.0, kind.NORMAL) for code in range(33, 127)}
    # Pieces are merged from their beginnings, so every beginning of a word must be a piece itself.
    for word in WORDS:
        for length in range(1, len(word) + 1):
            tokens.setdefault(word[:length], (-3.0 - 0.01 * length, kind.NORMAL))
            tokens.setdefault(SPACE + word[:length], (-2.5 - 0.01 * length, kind.NORMAL))
    tokens[CHAT_START] = tokens[CHAT_END] = (0.0, kind.CONTROL)
    return tokens


def write_header(writer, args, tokens):
    writer.add_name("tiny-random-llama")
    writer.add_context_length(args.context)
    writer.add_embedding_length(args.dim)
    writer.add_block_count(args.layers)
    writer.add_feed_forward_length(args.ff)
    writer.add_head_count(args.heads)
    writer.add_head_count_kv(args.kv_heads)
    writer.add_rope_dimension_count(args.dim // args.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores([score for score, _ in tokens.values()])
    writer.add_token_types([kind for _, kind in tokens.values()])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(EOS)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    # A space put before the answer would break grammars (response_format) after the template's last newline.
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)


def write_tensors(writer, args, vocabulary_size):
    random = numpy.random.default_rng(args.seed)

    def matrix(rows, columns, scale=None):
        scale = scale or columns**-0.5
        return (random.standard_normal((rows, columns)) * scale).astype(numpy.float32)

    ones = numpy.ones(args.dim, numpy.float32)
    kv_dim = args.kv_heads * (args.dim // args.heads)
    output = matrix(vocabulary_size, args.dim, scale=0.35)
    output[:FIRST_TEXT_TOKEN] *= 0.02
    output[-2:] *= 0.02
    writer.add_tensor("token_embd.weight", matrix(vocabulary_size, args.dim, scale=1.0))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output)
    for layer in range(args.layers):
        shapes = {
            "attn_q": (args.dim, args.dim),
            "attn_k": (kv_dim, args.dim),
            "attn_v": (kv_dim, args.dim),
            "attn_output": (args.dim, args.dim),
            "ffn_gate": (args.ff, args.dim),
            "ffn_up": (args.ff, args.dim),
            "ffn_down": (args.dim, args.ff),
        }
        for name, shape in shapes.items():
            writer.add_tensor(f"blk.{layer}.{name}.weight", matrix(*shape))
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", ones)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", help="file to write")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--kv-heads", type=int, default=2)
    parser.add_argument("--ff", type=int, default=128)
    parser.add_argument("--context", type=int, default=65536, help="longest context the model claims")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    tokens = vocabulary()
    writer = gguf.GGUFWriter(args.out, "llama")
    write_header(writer, args, tokens)
    write_tensors(writer, args, len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
