// A tick each second as server-sent events, and what a request's headers were: things that a
// proxy in between must not spoil.
const routes = {
  '/events': (req, res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    let tick = 0;
    const send = () => res.write(`data: tick ${(tick += 1)}\n\n`);
    send();
    const timer = setInterval(send, 1000);
    req.on('close', () => clearInterval(timer));
  },
  '/headers': (req, res) => {
    res.setHeader('content-type', 'application/json');
    res.end(JSON.stringify(req.headers) + '\n');
  },
};

const extra = {
  name: 'sandbar-example',
  configureServer: (server) => {
    for (const [path, handler] of Object.entries(routes)) server.middlewares.use(path, handler);
  },
};

export default {
  plugins: [extra],
  // A sandbox is reached by its address; the data plane passes the Host "localhost".
  server: { host: true, port: Number(process.env.PORT ?? 3000), strictPort: true },
};
