#!/usr/bin/env python3
"""Anthropic's Python client, unmodified, against one base URL. How results are printed: checks.py."""

import argparse

import anthropic
from checks import Failed, raised, run

MESSAGES = [{"role": "user", "content": "hello"}]
TOOLS = [{"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]


def message(client, args):
    answer = client.messages.create(model=args.model, max_tokens=args.tokens, messages=MESSAGES)
    text = "".join(block.text for block in answer.content if block.type == "text")
    return {"text": text, "stop": answer.stop_reason, "tokens": answer.usage.output_tokens}


def stream(client, args):
    pieces = []
    with client.messages.stream(model=args.model, max_tokens=args.tokens, messages=MESSAGES) as events:
        pieces += events.text_stream
        last = events.get_final_message()
    return {"text": "".join(pieces), "chunks": len(pieces), "stop": last.stop_reason, "tokens": last.usage.output_tokens}


def tools_stream(client, args):
    options = {"model": args.model, "max_tokens": args.tokens, "messages": MESSAGES, "tools": TOOLS}
    with client.messages.stream(**options) as events:
        last = events.get_final_message()
    calls = [{"name": block.name, "input": block.input} for block in last.content if block.type == "tool_use"]
    return {"calls": calls, "stop": last.stop_reason}


def count_tokens(client, args):
    return client.messages.count_tokens(model=args.model, messages=MESSAGES).input_tokens


def error(client, args):
    try:
        client.messages.create(model=args.model, max_tokens=args.tokens, messages=MESSAGES)
    except anthropic.AnthropicError as problem:
        return raised(problem)
    raise Failed("there was an answer")


def broken_stream(client, args):
    pieces = []
    try:
        with client.messages.stream(model=args.model, max_tokens=args.tokens, messages=MESSAGES) as events:
            for piece in events.text_stream:
                pieces.append(piece)
    except anthropic.AnthropicError as problem:
        return raised(problem) | {"text": "".join(pieces)}
    raise Failed(f"a stream that broke off ended well, with {pieces}")


CHECKS = {
    check.__name__.replace("_", "-"): check
    for check in (message, stream, tools_stream, count_tokens, error, broken_stream)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="base URL without /v1")
    parser.add_argument("model")
    parser.add_argument("checks", nargs="+", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--api-key", default="sk-ant-none", help="key sent to the server")
    parser.add_argument("--tokens", type=int, default=16, help="max_tokens of every request")
    args = parser.parse_args()
    client = anthropic.Anthropic(base_url=args.base, api_key=args.api_key, max_retries=0, timeout=60)
    run(CHECKS, args.checks, (client, args), anthropic.AnthropicError)


if __name__ == "__main__":
    main()
