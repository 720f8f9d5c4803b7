#!/usr/bin/env python3
"""HTTP worker for Punctual, with the Python standard library only: claims, extends its lease, reports progress, settles."""
import json, os, signal, threading, time, urllib.request, uuid

URL = os.environ.get("PUNCTUAL_URL", "http://127.0.0.1:8080")
QUEUE = os.environ.get("PUNCTUAL_QUEUE", "python")
LEASE = float(os.environ.get("PUNCTUAL_LEASE", "30"))
WORKER = str(uuid.uuid4())  # new at every start
stopping = threading.Event()
claiming = False  # no lease is held while it waits for work

class Stopped(Exception):
    pass

def stop(*_):
    stopping.set()
    if claiming:
        raise Stopped  # ends the wait; the server releases what it claims for a closed connection

def call(path, **body):
    headers = {"Content-Type": "application/json"}
    if os.environ.get("PUNCTUAL_TOKEN"):
        headers["Authorization"] = "Bearer " + os.environ["PUNCTUAL_TOKEN"]
    data = json.dumps({"worker": WORKER, **body}).encode()
    request = urllib.request.Request(f"{URL}/api/v1/work/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=90) as response:
        return json.loads(response.read() or "null")

class Attempt:
    def __init__(self, item):
        self.body, self.attempt = item["message"]["body"]["json"], item["attempt"]
        self.topic = item["message"]["topic"]
        self.held = {"message": item["message"]["id"], "token": item["lease"]["token"]}
        self.over = threading.Event()  # ended, lost, or no longer wanted

    def keep(self):  # in a thread of its own, so that a long handler keeps its lease
        while not self.over.wait(LEASE / 3):
            response = call("extend", leases=[self.held], lease=f"{LEASE}s")
            if response["items"][0]["state"] != "held":
                self.over.set()

    def progress(self, percent, note):
        call("progress", **self.held, percent=percent, note=note)

def greet(attempt):
    return {"greeting": f"hello, {attempt.body['name']}"}

def count(attempt):
    for number in range(1, attempt.body["to"] + 1):
        if attempt.over.wait(attempt.body["seconds"]):
            raise RuntimeError("asked to stop")
        attempt.progress(100 * number // attempt.body["to"], f"at {number}")
    return {"counted": attempt.body["to"]}

def flaky(attempt):
    if attempt.attempt == 1:
        raise RuntimeError("the first attempt always fails")

HANDLERS = {"greet": greet, "count": count, "flaky": flaky}

def handle(item):
    attempt = Attempt(item)
    threading.Thread(target=attempt.keep, daemon=True).start()
    try:
        ended = {"outcome": "done", "result": HANDLERS[attempt.topic](attempt)}
    except Exception as error:
        ended = {"outcome": "fail", "error": f"{type(error).__name__}: {error}"}
    attempt.over.set()
    print(attempt.topic, ended["outcome"], call("settle", **attempt.held, **ended)["state"], flush=True)

def claim():
    global claiming
    claiming = True
    try:
        return [] if stopping.is_set() else call("claim", queue=QUEUE, lease=f"{LEASE}s", wait="20s")["items"]
    except Stopped:
        return []
    finally:
        claiming = False

signal.signal(signal.SIGTERM, stop)
while not stopping.is_set():
    try:
        for item in claim():
            handle(item)
    except OSError as error:  # the server is away: try again
        print(f"no response: {error}", flush=True)
        time.sleep(1)
call("deregister")
