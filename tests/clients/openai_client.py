#!/usr/bin/env python3
"""The official OpenAI client, unmodified, against one base URL.

Prints `ok NAME` for each check and stops with exit code 1 at the first that fails. It retries nothing, so that
one call is one request.
"""

import argparse
import sys
import time

import openai

MESSAGES = [{"role": "user", "content": "hello"}]
CHECKS = ("models", "chat", "stream", "completion", "completion-stream", "embeddings", "unknown-model")


class Failed(Exception):
    """What did not hold."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


def expect_text(args, text):
    expect(isinstance(text, str) and text, f"no text: {text!r}")
    if args.expect is not None:
        expect(text == args.expect, f"text {text!r}, expected {args.expect!r}")


def expect_stream(args, pieces):
    """Checks the pieces of text of a stream, each with its time of arrival."""
    expect_text(args, "".join(text for text, _ in pieces))
    expect(len(pieces) >= args.min_chunks, f"{len(pieces)} chunks, expected at least {args.min_chunks}")
    spread_ms = (pieces[-1][1] - pieces[0][1]) * 1000
    expect(
        spread_ms >= args.min_spread_ms,
        f"all chunks within {spread_ms:.1f} ms, expected at least {args.min_spread_ms} ms: something buffers",
    )
    gaps = [(after[1] - before[1]) * 1000 for before, after in zip(pieces, pieces[1:])]
    return f"{len(pieces)} chunks, longest gap {max(gaps, default=0):.1f} ms"


def models(client, args):
    listed = [model.id for model in client.models.list()]
    expect(args.model in listed, f"{args.model!r} is not in {listed}")


def chat(client, args):
    answer = client.chat.completions.create(
        model=args.model, messages=MESSAGES, max_tokens=args.tokens, extra_body=args.extra
    )
    expect_text(args, answer.choices[0].message.content)
    expect(answer.usage.completion_tokens > 0, f"no usage: {answer.usage}")


def stream(client, args):
    events = client.chat.completions.create(
        model=args.model,
        messages=MESSAGES,
        max_tokens=args.tokens,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=args.extra,
    )
    pieces, usage = [], None
    for event in events:
        if event.choices and event.choices[0].delta.content:
            pieces.append((event.choices[0].delta.content, time.monotonic()))
        usage = event.usage or usage
    expect(usage is not None and usage.completion_tokens > 0, f"usage was asked for and is {usage}")
    return expect_stream(args, pieces)


def completion(client, args):
    answer = client.completions.create(
        model=args.model, prompt="hello", max_tokens=args.tokens, extra_body=args.extra
    )
    expect_text(args, answer.choices[0].text)


def completion_stream(client, args):
    events = client.completions.create(
        model=args.model, prompt="hello", max_tokens=args.tokens, stream=True, extra_body=args.extra
    )
    pieces = [
        (event.choices[0].text, time.monotonic()) for event in events if event.choices and event.choices[0].text
    ]
    return expect_stream(args, pieces)


def embeddings(client, args):
    answer = client.embeddings.create(model=args.embeddings_model or args.model, input=["hello", "world"])
    lengths = [len(item.embedding) for item in answer.data]
    expect(len(lengths) == 2 and lengths[0] == lengths[1] > 1, f"embeddings of lengths {lengths}")


def unknown_model(client, _args):
    try:
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
    except openai.NotFoundError as error:
        expect(error.code == "model_not_found", f"code {error.code!r} in {error}")
    else:
        raise Failed("an unknown model was answered")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="base URL that ends in /v1")
    parser.add_argument("model")
    parser.add_argument("--checks", default=",".join(CHECKS), help="comma separated; default: %(default)s")
    parser.add_argument("--embeddings-model", help="model for embeddings, where it is another one")
    parser.add_argument("--api-key", default="sk-none", help="key sent to the server")
    parser.add_argument("--expect", help="the exact text of every answer")
    parser.add_argument("--min-chunks", type=int, default=2, help="fewest chunks of text in a stream")
    parser.add_argument("--min-spread-ms", type=float, default=0, help="least time from first to last chunk")
    parser.add_argument("--tokens", type=int, default=16, help="max_tokens of every request")
    parser.add_argument("--ignore-eos", action="store_true", help="llama.cpp: generate exactly max_tokens")
    args = parser.parse_args()
    args.checks = args.checks.split(",")
    args.extra = {"ignore_eos": True} if args.ignore_eos else None
    unknown = [name for name in args.checks if name not in CHECKS]
    if unknown:
        parser.error(f"unknown checks {unknown}, known are {', '.join(CHECKS)}")
    return args


def main():
    args = parse()
    client = openai.OpenAI(base_url=args.base, api_key=args.api_key, max_retries=0, timeout=60)
    for name in args.checks:
        check = globals()[name.replace("-", "_")]
        try:
            detail = check(client, args)
        except (Failed, openai.OpenAIError) as error:
            sys.exit(f"FAILED {name}: {type(error).__name__}: {error}")
        print(f"ok {name}" + (f" ({detail})" if detail else ""), flush=True)


if __name__ == "__main__":
    main()
