#!/usr/bin/env python3
"""LangChain's OpenAI classes, unmodified, against one base URL. How results are printed: checks.py."""

import argparse

import openai
from checks import run
from langchain_openai import ChatOpenAI, OpenAIEmbeddings


def get_weather(city: str) -> str:
    """Says the weather of a city."""
    return f"sunny in {city}"


def model(args, **options):
    return ChatOpenAI(
        base_url=args.base, api_key="sk-none", model=args.model, max_tokens=args.tokens, max_retries=0, **options
    )


def chat(args):
    answer = model(args).invoke("hello")
    return {"text": answer.content, "tokens": answer.usage_metadata["output_tokens"]}


def stream(args):
    pieces = [piece.content for piece in model(args).stream("hello") if piece.content]
    return {"text": "".join(pieces), "chunks": len(pieces)}


def tools(args):
    answer = model(args).bind_tools([get_weather]).invoke("hello")
    return [{"name": call["name"], "args": call["args"]} for call in answer.tool_calls]


def tools_stream(args):
    whole = None
    for piece in model(args).bind_tools([get_weather]).stream("hello"):
        whole = piece if whole is None else whole + piece
    return [{"name": call["name"], "args": call["args"]} for call in whole.tool_calls]


def responses(args):
    return {"text": model(args, use_responses_api=True).invoke("hello").text}


def embeddings(args):
    embedder = OpenAIEmbeddings(
        base_url=args.base,
        api_key="sk-none",
        model=args.embeddings_model or args.model,
        max_retries=0,
        # Else it cuts texts into tokens of OpenAI's own models, whose lists it loads from the internet.
        check_embedding_ctx_length=False,
    )
    return {"dimensions": [len(vector) for vector in embedder.embed_documents(["hello", "world"])]}


CHECKS = {
    check.__name__.replace("_", "-"): check for check in (chat, stream, tools, tools_stream, responses, embeddings)
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="base URL that ends in /v1")
    parser.add_argument("model")
    parser.add_argument("checks", nargs="+", help=f"of {', '.join(CHECKS)}")
    parser.add_argument("--embeddings-model", help="model for embeddings, where it is another one")
    parser.add_argument("--tokens", type=int, default=16, help="max_tokens of every request")
    args = parser.parse_args()
    run(CHECKS, args.checks, (args,), openai.OpenAIError)


if __name__ == "__main__":
    main()
