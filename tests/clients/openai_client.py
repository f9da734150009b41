#!/usr/bin/env python3
"""OpenAI's Python client, unmodified, against one base URL. How results are printed: checks.py.

It retries nothing unless it is told to, so that one call is one request. With --trace it prints `response STATUS MILLIS`
for each answer of the server as it comes, with the client's own time.
"""

import argparse
import pathlib
import time

import openai
from checks import Failed, expect, raised, run

MESSAGES = [{"role": "user", "content": "hello"}]
PLACE = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": PLACE}}]
VERDICT = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}


def spread(args, pieces):
    """What is to be said of the pieces of text of a stream, each with its time of arrival."""
    expect(pieces, "no text in the stream")
    spread_ms = (pieces[-1][1] - pieces[0][1]) * 1000
    expect(
        spread_ms >= args.min_spread_ms,
        f"all chunks within {spread_ms:.1f} ms, expected at least {args.min_spread_ms} ms: something buffers",
    )
    return {"text": "".join(text for text, _ in pieces), "chunks": len(pieces)}


def models(client, _args):
    return [model.id for model in client.models.list()]


def chat(client, args):
    answer = client.chat.completions.create(
        model=args.model, messages=MESSAGES, max_tokens=args.tokens, extra_body=args.extra
    )
    return {"text": answer.choices[0].message.content, "tokens": answer.usage.completion_tokens}


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
    expect(usage is not None, "usage was asked for and did not come")
    return spread(args, pieces) | {"tokens": usage.completion_tokens}


def completion(client, args):
    answer = client.completions.create(
        model=args.model, prompt="hello", max_tokens=args.tokens, extra_body=args.extra
    )
    return {"text": answer.choices[0].text, "tokens": answer.usage.completion_tokens}


def completion_stream(client, args):
    events = client.completions.create(
        model=args.model, prompt="hello", max_tokens=args.tokens, stream=True, extra_body=args.extra
    )
    pieces = [
        (event.choices[0].text, time.monotonic()) for event in events if event.choices and event.choices[0].text
    ]
    return spread(args, pieces)


def vectors(client, args, **options):
    model = args.embeddings_model or args.model
    return [item.embedding for item in client.embeddings.create(model=model, input=["hello", "world"], **options).data]


def embeddings(client, args):
    """The client asks for base64 where nothing is said, and decodes it."""
    plain, packed = vectors(client, args, encoding_format="float"), vectors(client, args)
    expect(len(plain) == len(packed) == 2, f"{len(plain)} and {len(packed)} vectors of two texts")
    pairs = [pair for ours, theirs in zip(plain, packed) for pair in zip(ours, theirs, strict=True)]
    distance = max(abs(one - other) for one, other in pairs)
    expect(distance < 1e-5, f"the vectors differ by {distance} between float and base64")
    expect(plain[0] != plain[1], "two texts have the same vector")
    return {"dimensions": len(plain[0]), "first": plain[0][0]}


def json_schema(client, args):
    schema = {"name": "verdict", "strict": True, "schema": VERDICT}
    answer = client.chat.completions.create(
        model=args.model,
        messages=MESSAGES,
        max_tokens=args.tokens,
        response_format={"type": "json_schema", "json_schema": schema},
    )
    return answer.choices[0].message.content


def responses(client, args):
    answer = client.responses.create(model=args.model, input="hello", max_output_tokens=args.tokens)
    return {"text": answer.output_text, "tokens": answer.usage.output_tokens, "status": answer.status}


def responses_stream(client, args):
    pieces, types = [], []
    for event in client.responses.create(
        model=args.model, input="hello", max_output_tokens=args.tokens, stream=True
    ):
        types.append(event.type)
        if event.type == "response.output_text.delta":
            pieces.append((event.delta, time.monotonic()))
    return spread(args, pieces) | {"first": types[0], "last": types[-1]}


def calls(message):
    return [
        {"id": call.id, "name": call.function.name, "arguments": call.function.arguments}
        for call in message.tool_calls or []
    ]


def tools(client, args):
    """A call of a tool, then its result."""
    choice = client.chat.completions.create(model=args.model, messages=MESSAGES, tools=TOOLS).choices[0]
    asked = calls(choice.message)
    expect(asked, f"no call: {choice}")
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in asked]
    messages = [*MESSAGES, choice.message.model_dump(exclude_none=True), *results]
    answer = client.chat.completions.create(model=args.model, messages=messages, tools=TOOLS)
    return {"finish": choice.finish_reason, "calls": asked, "text": answer.choices[0].message.content}


def tools_stream(client, args):
    """The client puts the calls together from their pieces, by index."""
    pieces = []
    with client.chat.completions.stream(model=args.model, messages=MESSAGES, tools=TOOLS) as events:
        for event in events:
            if event.type == "chunk" and event.chunk.choices:
                pieces += [call.index for call in event.chunk.choices[0].delta.tool_calls or []]
        choice = events.get_final_completion().choices[0]
    return {"finish": choice.finish_reason, "calls": calls(choice.message), "pieces": pieces}


def vision(client, args):
    url = "data:image/png;base64," + pathlib.Path(args.file).read_text()
    parts = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    answer = client.chat.completions.create(model=args.model, messages=[{"role": "user", "content": parts}])
    return {"text": answer.choices[0].message.content}


def transcription(client, args):
    with open(args.file, "rb") as audio:
        answer = client.audio.transcriptions.create(model=args.model, file=audio, language="en", temperature=0)
    return answer.text


def error(client, args):
    """Any error that a chat meets, with a file's text where one is given."""
    content = pathlib.Path(args.file).read_text() if args.file else "hello"
    try:
        client.chat.completions.create(model=args.model, messages=[{"role": "user", "content": content}])
    except openai.OpenAIError as problem:
        return raised(problem)
    raise Failed("there was an answer")


def broken_stream(client, args):
    text = ""
    try:
        for event in client.chat.completions.create(model=args.model, messages=MESSAGES, stream=True):
            text += event.choices[0].delta.content or ""
    except openai.OpenAIError as problem:
        return raised(problem) | {"text": text}
    raise Failed(f"a stream that broke off ended well, with {text!r}")


def broken_responses_stream(client, args):
    text = ""
    try:
        for event in client.responses.create(model=args.model, input="hello", stream=True):
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "error":
                return {"text": text, "code": event.code, "message": event.message}
    except openai.OpenAIError as problem:
        return raised(problem) | {"text": text}
    raise Failed(f"a stream that broke off ended well, with {text!r}")


CHECKS = {
    check.__name__.replace("_", "-"): check
    for check in (
        models,
        chat,
        stream,
        completion,
        completion_stream,
        embeddings,
        json_schema,
        responses,
        responses_stream,
        tools,
        tools_stream,
        vision,
        transcription,
        error,
        broken_stream,
        broken_responses_stream,
    )
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="base URL that ends in /v1")
    parser.add_argument("model")
    parser.add_argument("checks", nargs="+", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--embeddings-model", help="model for embeddings, where it is another one")
    parser.add_argument("--api-key", default="sk-none", help="key sent to the server")
    parser.add_argument("--retries", type=int, default=0, help="times a request is sent again")
    parser.add_argument("--min-spread-ms", type=float, default=0, help="least time from first to last chunk")
    parser.add_argument("--tokens", type=int, default=16, help="max_tokens of every request")
    parser.add_argument("--ignore-eos", action="store_true", help="llama.cpp: generate exactly max_tokens")
    parser.add_argument("--file", help="sent as audio; its text is sent as base64 of an image")
    parser.add_argument("--sent", help="file for the body of the last request, as it was sent")
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()
    args.extra = {"ignore_eos": True} if args.ignore_eos else None
    return args


def hooks(args):
    def record(request):
        pathlib.Path(args.sent).write_bytes(request.read())

    def trace(response):
        print(f"response {response.status_code} {time.monotonic() * 1000:.1f}", flush=True)

    return {"request": [record] if args.sent else [], "response": [trace] if args.trace else []}


def main():
    args = parse()
    client = openai.OpenAI(
        base_url=args.base,
        api_key=args.api_key,
        max_retries=args.retries,
        timeout=60,
        http_client=openai.DefaultHttpxClient(event_hooks=hooks(args)),
    )
    run(CHECKS, args.checks, (client, args), openai.OpenAIError)


if __name__ == "__main__":
    main()
