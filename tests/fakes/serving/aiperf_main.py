"""Stands for AIPerf: send the requests of a trace on time and write a record for each.

Started as `python ... -m aiperf profile --OPTION VALUE ...`. It knows the options that p3-advisor
uses. The variable `P3_ADVISOR_FAKE_AIPERF` makes it `fail`, or send every request `late`.
"""

import argparse
import asyncio
import json
import os
import pathlib
import sys
import tempfile
import time
import urllib.parse

FAULT = os.environ.get("P3_ADVISOR_FAKE_AIPERF", "")
LATE_SECONDS = 0.5


async def ask(options, line, begin):
    """Return the record of one request."""
    await asyncio.sleep(max(begin + line["timestamp"] / 1e3 - time.time(), 0))
    if FAULT == "late" and int(line["session_id"]) % 2:
        await asyncio.sleep(LATE_SECONDS)
    start = time.time()
    metadata = {"conversation_id": line["session_id"], "request_start_ns": int(start * 1e9)}
    url = urllib.parse.urlsplit(options.url)
    body = json.dumps(
        {
            "model": options.model,
            "prompt": line["text_input"],
            "max_tokens": line["output_length"],
            "stream": True,
            **json.loads(options.extra_inputs),
        }
    )
    try:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        writer.write(
            f"POST /v1/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        first = time.time()
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0])
        text = (await reader.readexactly(length)).decode()
        writer.close()
    except (OSError, asyncio.IncompleteReadError) as problem:
        return {"metadata": metadata, "metrics": {}, "error": {"message": repr(problem)}}
    if b" 200 " not in head.split(b"\r\n")[0]:
        return {"metadata": metadata, "metrics": {}, "error": {"message": text}}
    tokens = json.loads(text.split("data: ")[-2])["usage"]["completion_tokens"]
    seconds = (first - start, time.time() - start)
    metrics = {
        "time_to_first_token": {"value": seconds[0] * 1e3, "unit": "ms"},
        "request_latency": {"value": seconds[1] * 1e3, "unit": "ms"},
        "inter_token_latency": {"value": (seconds[1] - seconds[0]) * 1e3 / (tokens - 1)},
        "output_sequence_length": {"value": tokens, "unit": "tokens"},
        "inter_chunk_latency": {"value": [0.0], "unit": "ms"},
    }
    return {"metadata": metadata, "metrics": metrics, "error": None}


async def ask_all(options, lines):
    begin = time.time() + 0.1
    return await asyncio.gather(*(ask(options, line, begin) for line in lines))


def main():
    parser = argparse.ArgumentParser()
    for name in ("url", "model", "input-file", "artifact-dir", "extra-inputs"):
        parser.add_argument(f"--{name}", default="{}")
    options, others = parser.parse_known_args()
    if FAULT == "fail" or not {"--streaming", "--fixed-schedule"} <= {*others}:
        print("│ this trace is made to fail │")
        sys.exit(1)
    # AIPerf leaves such directories.
    tempfile.mkdtemp(prefix="fake-aiperf-")
    lines = pathlib.Path(options.input_file).read_text().splitlines()
    records = asyncio.run(ask_all(options, [json.loads(line) for line in lines]))
    out = pathlib.Path(options.artifact_dir)
    out.mkdir(parents=True)
    (out / "profile_export.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))


main()
