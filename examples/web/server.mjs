// A small web project, as a tenant would have one. The demo and the end-to-end tests run it.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

const port = Number(process.env.PORT ?? 3000);
const here = new URL('.', import.meta.url);
const read = async (name) => (await readFile(new URL(name, here), 'utf8')).trim();
const json = (res, value) => {
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify(value) + '\n');
};

const routes = {
  '/': async (req, res) => {
    const page = await read('index.html');
    const text = (await read('message.txt')).replace(/[<&]/g, (c) => `&#${c.charCodeAt(0)};`);
    res.setHeader('content-type', 'text/html; charset=utf-8');
    res.end(page.replace('MESSAGE', () => text).replace('PID', process.pid));
  },
  // What the project says now, and which process says it.
  '/version': async (req, res) => json(res, { message: await read('message.txt'), pid: process.pid }),
  // What arrived here, to see what a proxy in between removes and adds.
  '/headers': (req, res) => json(res, req.headers),
  // Writes a line to the log.
  '/log': (req, res, url) => {
    console.log(url.searchParams.get('text') ?? 'nothing');
    res.end('logged\n');
  },
  // Answers at once and ends later.
  '/slow': (req, res, url) => {
    res.flushHeaders();
    setTimeout(() => res.end('done\n'), Math.min(Number(url.searchParams.get('ms') ?? 1000), 10_000));
  },
};

const server = createServer(async (req, res) => {
  const url = new URL(req.url, 'http://sandbox');
  const route = routes[url.pathname];
  if (!route) {
    res.statusCode = 404;
    return res.end('not found\n');
  }
  try {
    await route(req, res, url);
  } catch (err) {
    console.error(err);
    res.statusCode = 500;
    res.end('failed\n');
  }
});

const sockets = new WebSocketServer({ server, path: '/echo', maxPayload: 1 << 20 });
sockets.on('connection', (socket) => {
  socket.on('message', (data, binary) => socket.send(data, { binary }));
  // Without a listener a message that is too large would end the whole process.
  socket.on('error', (err) => console.error(`websocket: ${err.message}`));
});

server.listen(port, '0.0.0.0', async () => console.log(`listening on ${server.address().port}: ${await read('message.txt')}`));
process.on('SIGTERM', () => {
  console.log('stopping');
  sockets.clients.forEach((socket) => socket.close(1001));
  server.close(() => process.exit(0));
  server.closeIdleConnections();
});
