// A worker in Node for `spool serve`, with nothing but what Node 18 has.
//
//	spool serve                                  # in one terminal
//	spool enqueue mail '{"to": "ada"}'           # in another
//	node worker.mjs http://127.0.0.1:8080        # in a third
//
// SIGTERM and Ctrl-C finish the running job and stop. SPOOL_CREDENTIAL, when it is
// set, is shown to the server: it needs the scope work.
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const base = (process.argv[2] ?? "http://127.0.0.1:8080").replace(/\/$/, "");
const ttl = 30, wait = 20; // seconds: of a lease, of a claim
const name = `node-${process.pid}@${hostname()}`.slice(0, 128); // lists this process as a worker while it claims
let stopping = false, claim = null; // the id of the claim that waits

// call makes a call until it is answered. It keeps its id, so that a repeat after
// a lost answer changes nothing.
async function call(path, body, { id = randomUUID(), method = "POST", patience = 60 } = {}) {
  const headers = { "Content-Type": "application/json", "Spool-Call-ID": id };
  if (process.env.SPOOL_CREDENTIAL) headers.Authorization = `Bearer ${process.env.SPOOL_CREDENTIAL}`;
  const deadline = Date.now() + patience * 1000;
  for (let pause = 100; ; pause = Math.min(2 * pause, 5000)) {
    let last;
    try {
      const answer = await fetch(base + path, { method, headers, body: body && JSON.stringify(body) });
      if (answer.status === 204) return null;
      const said = await answer.json();
      if (answer.ok) return said;
      last = new Error(said.detail ?? said.title);
      if (![429, 502, 503, 504].includes(answer.status)) throw Object.assign(last, { final: true });
    } catch (e) {
      if (e.final) throw e;
      last = e;
    }
    if (Date.now() > deadline) throw last;
    await sleep(pause);
  }
}

// handle is what a job does: an error means that it is tried again.
async function handle(job) {
  console.log("running", job.task, JSON.stringify(job.payload));
  if (job.task === "fail") throw new Error("this task always fails");
  return { handled_by: "node" };
}

async function run({ job, token }) {
  const ref = { queue: job.queue, id: job.id, token };
  const heart = setInterval(() => call("/v1/extend", { worker: { id: name }, ttl: `${ttl}s`, leases: [ref] }).catch(console.error), (ttl * 1000) / 3);
  let settlement;
  try {
    settlement = { kind: "ack", result: await handle(job) };
  } catch (e) {
    settlement = { kind: "nack", error: String(e.stack), delay: `${2 ** Math.min(job.attempt, 10)}s` };
  }
  clearInterval(heart);
  await call("/v1/settle", { settlements: [{ ...ref, ...settlement }] });
}

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    stopping = true; // and the claim that waits answers at once with what it has
    if (claim) call(`/v1/claims/${claim}`, undefined, { method: "DELETE", patience: 1 }).catch(() => {});
  });
}
while (!stopping) {
  claim = randomUUID();
  const { leases } = await call("/v1/claim", { worker: name, max: 1, ttl: `${ttl}s`, wait: `${wait}s` }, { id: claim });
  claim = null;
  for (const lease of leases) await run(lease);
}
await call("/v1/extend", { worker: { id: name }, leaving: true }, { patience: 1 }).catch(() => {}); // else it is listed for some minutes
