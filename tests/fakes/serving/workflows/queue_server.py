"""A server with one queue and a fixed service time, after which a whole text is sent: M/D/1.

Usage: `python queue_server.py PORT MILLISECONDS FAULT`. FAULT is `none`, `wrong` (other texts),
`wrong-under-load` (other texts while streamed requests arrive), `sheds` (every eighth request is
refused), `dies` (after 20 requests), `short` (it refuses prompts of more than four words), or
`refuses` (it ends at once).
Only streamed requests count, which are those of the load.
"""

import asyncio
import json
import re
import sys
import time

PORT, SECONDS, FAULT = int(sys.argv[1]), float(sys.argv[2]) / 1000, sys.argv[3]
VOCABULARY = 64
#: Words of the prompts whose texts are checked.
MOST_WORDS = 4
#: A test that fails leaves no server for longer.
MOST_SECONDS = 600
#: A server is under load for this long after a streamed request.
LOADED_SECONDS = 0.7


class Queue:
    """The time at which the server is free, by the monotonic clock."""

    free_at = 0.0
    requests = 0
    #: When the last streamed request arrived.
    streamed_at = float("-inf")


def is_wrong():
    is_loaded = time.monotonic() - Queue.streamed_at < LOADED_SECONDS
    return FAULT == "wrong" or (FAULT == "wrong-under-load" and is_loaded)


def generate(prompt, count):
    token = int(re.findall(r"t(\d{7})", prompt)[-1])
    words = []
    for _ in range(count):
        token = (7 * token + (4 if is_wrong() else 3)) % VOCABULARY
        words.append(f"t{token:07d}")
    return words


async def read_request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method = head.split(" ")[0]
    found = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
    return method, await reader.readexactly(int(found[1])) if found else b""


def answer(writer, body, status="200 OK", kind="application/json"):
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)


async def complete(writer, request):
    now = time.monotonic()
    if request.get("stream"):
        Queue.requests += 1
        Queue.streamed_at = now
    if FAULT == "dies" and Queue.requests > 20:
        sys.exit(3)
    if FAULT == "sheds" and request.get("stream") and Queue.requests % 8 == 1:
        answer(writer, '{"error": "busy"}', "503 Service Unavailable")
        return
    if FAULT == "short" and len(request["prompt"].split()) > MOST_WORDS:
        answer(writer, '{"error": "the prompt has too many characters"}', "400 Bad Request")
        return
    Queue.free_at = max(now, Queue.free_at) + SECONDS
    words = generate(request["prompt"], request["max_tokens"])
    usage = {"prompt_tokens": 1, "completion_tokens": len(words), "total_tokens": 1 + len(words)}
    await asyncio.sleep(Queue.free_at - now)
    if not request.get("stream"):
        choice = {"index": 0, "text": " ".join(words), "finish_reason": "length"}
        answer(writer, json.dumps({"choices": [choice], "usage": usage}))
        return
    chunks = [{"choices": [{"index": 0, "text": f" {word}"}]} for word in words]
    events = [*chunks, {"choices": [], "usage": usage}]
    text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    answer(writer, f"{text}data: [DONE]\n\n", kind="text/event-stream")


async def serve(reader, writer):
    try:
        while True:
            method, body = await read_request(reader)
            if method == "GET":
                answer(writer, '{"status": "ok"}')
            else:
                await complete(writer, json.loads(body))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    if FAULT == "refuses":
        sys.exit(4)
    server = await asyncio.start_server(serve, "127.0.0.1", PORT)
    async with server:
        await asyncio.wait_for(server.serve_forever(), MOST_SECONDS)


asyncio.run(main())
