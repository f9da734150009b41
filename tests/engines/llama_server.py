#!/usr/bin/env python3
"""A real llama.cpp HTTP server out of the xllamacpp wheel, on 127.0.0.1.

Prints `ready http=HOST:PORT` when it serves, and runs until SIGTERM or SIGINT.
"""

import argparse
import signal
import sys

import xllamacpp


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="GGUF file")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--slots", type=int, default=2, help="requests served at once")
    parser.add_argument("--context", type=int, default=4096, help="tokens of context of each slot")
    parser.add_argument("--embeddings", action="store_true", help="serve embeddings instead of text")
    return parser.parse_args()


def parameters(args):
    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.hostnames = ["127.0.0.1"] if isinstance(params.hostnames, list) else "127.0.0.1"
    params.port = args.port
    params.n_parallel = args.slots
    params.n_ctx = args.slots * args.context
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.endpoint_slots = True
    params.endpoint_metrics = True
    params.use_jinja = True
    if args.embeddings:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    return params


def main():
    for ending in (signal.SIGTERM, signal.SIGINT):
        signal.signal(ending, lambda *_: sys.exit(0))
    # The server lives as long as this object does.
    server = xllamacpp.Server(parameters(parse()))
    print(f"ready http={server.listening_address.removeprefix('http://')}", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
