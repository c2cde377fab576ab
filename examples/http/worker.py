#!/usr/bin/env python3
"""A worker in Python for `spool serve`, with nothing but the standard library.

    spool serve                                  # in one terminal
    spool enqueue mail '{"to": "ada"}'           # in another
    python3 worker.py http://127.0.0.1:8080      # in a third

SIGTERM and Ctrl-C finish the running job and stop. SPOOL_CREDENTIAL, when it is
set, is shown to the server: it needs the scope work.
"""
import contextlib, json, os, signal, socket, sys, threading, time, urllib.error, urllib.request, uuid

BASE = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TTL, WAIT = 30, 20  # seconds: of a lease, of a claim
NAME = f"python-{os.getpid()}@{socket.gethostname()}"[:128]  # lists this process as a worker while it claims
stopping = threading.Event()


def call(path, body=None, method="POST", id=None, patience=60):
    """Makes a call until it is answered. It keeps its id, so that a repeat after
    a lost answer changes nothing."""
    headers = {"Content-Type": "application/json", "Spool-Call-ID": id or str(uuid.uuid4())}
    if os.environ.get("SPOOL_CREDENTIAL"):
        headers["Authorization"] = "Bearer " + os.environ["SPOOL_CREDENTIAL"]
    pause, deadline = 0.1, time.monotonic() + patience
    while True:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(BASE + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT + 10) as answer:
                return json.loads(answer.read() or "null")
        except urllib.error.HTTPError as e:
            if e.code not in (429, 502, 503, 504) or time.monotonic() > deadline:
                raise RuntimeError(json.load(e).get("detail", e)) from e
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 5)


def handle(job):
    """What a job does: an exception means that it is tried again."""
    print("running", job["task"], json.dumps(job.get("payload")), flush=True)
    if job["task"] == "fail":
        raise ValueError("this task always fails")
    return {"handled_by": "python"}


def run(lease):
    job, done = lease["job"], threading.Event()
    ref = {"queue": job["queue"], "id": job["id"], "token": lease["token"]}

    def heart():  # three beats for each lease
        while not done.wait(TTL / 3):
            call("/v1/extend", {"worker": {"id": NAME}, "ttl": f"{TTL}s", "leases": [ref]})

    threading.Thread(target=heart, daemon=True).start()
    try:
        settlement = {"kind": "ack", "result": handle(job)}
    except Exception as e:
        settlement = {"kind": "nack", "error": repr(e), "delay": f"{2 ** min(job['attempt'], 10)}s"}
    done.set()
    call("/v1/settle", {"settlements": [{**ref, **settlement}]})


def main():
    waiting = [None]  # the id of the claim that waits

    def stop(*_):
        stopping.set()
        if waiting[0]:  # it answers at once with what it has
            end = lambda id: call(f"/v1/claims/{id}", method="DELETE", patience=1)
            threading.Thread(target=end, args=(waiting[0],), daemon=True).start()

    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, stop)
    while not stopping.is_set():
        waiting[0] = str(uuid.uuid4())
        claim = {"worker": NAME, "max": 1, "ttl": f"{TTL}s", "wait": f"{WAIT}s"}
        leases = call("/v1/claim", claim, id=waiting[0])["leases"]
        waiting[0] = None
        for lease in leases:
            run(lease)
    with contextlib.suppress(Exception):  # else it is listed for some minutes
        call("/v1/extend", {"worker": {"id": NAME}, "leaving": True}, patience=1)


if __name__ == "__main__":
    main()
