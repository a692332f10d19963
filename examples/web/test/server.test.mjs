import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import WebSocket from "ws";

let app;
let base;

before(async () => {
  const server = fileURLToPath(new URL("../server.mjs", import.meta.url));
  app = spawn(process.execPath, [server], { env: { ...process.env, PORT: "0" }, stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(createInterface({ input: app.stdout }), "line");
  base = `http://127.0.0.1:${line.match(/on (\d+)/)[1]}`;
});

after(() => app.kill("SIGKILL"));

test("the version shows the text of message.txt and the process", async () => {
  const version = await (await fetch(`${base}/version`)).json();
  const text = readFileSync(new URL("../message.txt", import.meta.url), "utf8").trim();
  assert.equal(version.message, text);
  assert.equal(version.pid, app.pid);
});

test("the index page shows the text and names its assets relative to itself", async () => {
  const page = await (await fetch(base)).text();
  assert.match(page, new RegExp(readFileSync(new URL("../message.txt", import.meta.url), "utf8").trim()));
  assert.doesNotMatch(page, /(href|src)="\//);
});

test("other paths are not files", async () => {
  for (const path of ["/server.mjs", "/message.txt", "/..%2fpackage.json", "/%2e%2e/package.json"]) {
    assert.equal((await fetch(base + path)).status, 404, path);
  }
});

test("the WebSocket echoes text and binary", async () => {
  const socket = new WebSocket(`${base.replace("http", "ws")}/echo`);
  await once(socket, "open");
  socket.send("hello");
  assert.equal(String((await once(socket, "message"))[0]), "hello");
  socket.send(Buffer.from([0, 255]));
  const [data, isBinary] = await once(socket, "message");
  assert.ok(isBinary);
  assert.deepEqual([...data], [0, 255]);
  socket.close();
});

test("a message beyond the limit ends its own connection only", async () => {
  const socket = new WebSocket(`${base.replace("http", "ws")}/echo`);
  await once(socket, "open");
  const closed = once(socket, "close");
  socket.send(Buffer.alloc((1 << 20) + 1));
  assert.equal((await closed)[0], 1009);
  assert.equal((await fetch(`${base}/version`)).status, 200);
});

// The last one: it ends the app.
test("SIGTERM closes WebSockets with 1001 and ends the process with code 0", async () => {
  const socket = new WebSocket(`${base.replace("http", "ws")}/echo`);
  await once(socket, "open");
  const closed = once(socket, "close");
  app.kill("SIGTERM");
  assert.equal((await closed)[0], 1001);
  assert.equal((await once(app, "exit"))[0], 0);
});
