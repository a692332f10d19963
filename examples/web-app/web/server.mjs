// The page, and a way to the API behind it.
import { readFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';

const port = Number(process.env.PORT ?? 3000);
const api = new URL(process.env.API_URL ?? 'http://localhost:8000');
const here = new URL('.', import.meta.url);

// forward hands a request on to the API and its answer back.
const forward = (req, res) => {
  const onward = request(
    { host: api.hostname, port: api.port || 80, method: req.method, path: req.url.slice('/api'.length) },
    (answer) => {
      res.writeHead(answer.statusCode, { 'content-type': answer.headers['content-type'] ?? 'text/plain' });
      answer.pipe(res);
    },
  );
  onward.on('error', (err) => {
    console.error('api:', err.message);
    if (!res.headersSent) res.writeHead(502, { 'content-type': 'text/plain' });
    res.end('the API does not answer\n');
  });
  if (req.headers['content-length']) onward.setHeader('content-length', req.headers['content-length']);
  req.pipe(onward);
};

const server = createServer(async (req, res) => {
  if (req.url.startsWith('/api/')) return forward(req, res);
  if (req.url === '/healthz') return res.end('ok\n');
  if (req.url !== '/') return res.writeHead(404).end('not found\n');
  try {
    const page = await readFile(new URL('index.html', here));
    res.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(page);
  } catch (err) {
    console.error(err.message);
    res.writeHead(500).end('the page cannot be read\n');
  }
});

server.listen(port, '0.0.0.0', () => console.log(`web: listening on ${port}`));
process.on('SIGTERM', () => {
  server.close(() => process.exit(0));
  server.closeAllConnections();
});
