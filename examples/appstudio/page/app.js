// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// The page of App Studio. It has no token: the browser sends its session's cookie, which no script can read.

const $ = (id) => document.getElementById(id);
const start = `import { createServer } from 'node:http';

createServer((_, res) => res.end('<h1>Hello from App Studio</h1>'))
  .listen(process.env.PORT, '0.0.0.0', () => console.log('listening'));
`;

let open; // the project that is shown: its address, and what ends with it

// call asks the server. An answer that is no success is shown, and thrown.
async function call(method, path, body) {
  $('error').hidden = true;
  const text = typeof body === 'string';
  const res = await fetch('api/' + path, {
    method,
    headers: body === undefined ? {} : { 'Content-Type': text ? 'text/plain' : 'application/json' },
    body: text || body === undefined ? body : JSON.stringify(body),
  });
  if (res.ok) return res.headers.get('Content-Type')?.includes('json') ? res.json() : res.text();
  const { error } = await res.json().catch(() => ({ error: res.statusText }));
  if (res.status === 401) show('login');
  throw fail(error);
}

function fail(message) {
  $('error').textContent = message;
  $('error').hidden = false;
  return new Error(message);
}

function show(view) {
  for (const id of ['login', 'projects', 'project']) $(id).hidden = id !== view;
  if (view !== 'project') close();
}

function close() {
  open?.log?.close();
  open?.shell?.close();
  clearTimeout(open?.timer);
  clearTimeout(open?.renewal);
  open = undefined;
}

async function home() {
  const { user, workspace } = await call('GET', 'session');
  $('who').textContent = `${user} in ${workspace}`;
  $('logout').hidden = false;
  const [projects, templates] = await Promise.all([call('GET', 'projects'), call('GET', 'templates')]);
  $('list').replaceChildren(...projects.map((p) => item(`${p.name} (${p.phase})`, () => enter(p))));
  const choice = document.forms.create.resource;
  choice.replaceChildren(...templates.map((t) => new Option(t.displayName, t.resource)));
  if (templates.some((t) => t.resource === 'sandboxrunners')) choice.value = 'sandboxrunners';
  show('projects');
}

function item(text, act) {
  const button = Object.assign(document.createElement('button'), { textContent: text, onclick: act });
  const li = document.createElement('li');
  li.append(button);
  return li;
}

async function enter({ resource, name }) {
  close();
  open = { at: `projects/${resource}/${name}` };
  $('name').textContent = name;
  $('shared').hidden = true;
  $('files').replaceChildren();
  $('log').textContent = $('screen').textContent = document.forms.edit.content.value = '';
  $('preview').removeAttribute('src');
  show('project');
  await follow(open);
}

// follow waits until the project is ready, and then opens what there is to see.
async function follow(mine) {
  const p = await call('GET', mine.at);
  if (open !== mine) return;
  $('phase').textContent = p.ready ? 'Ready' : `${p.phase}: ${p.message ?? ''}`;
  if (!mine.log && p.phase !== 'Pending') {
    mine.log = new EventSource('api/' + mine.at + '/log');
    mine.log.onmessage = (e) => append($('log'), JSON.parse(e.data));
  }
  if (!p.ready) {
    mine.timer = setTimeout(() => follow(mine).catch(() => {}), 500);
    return;
  }
  mine.shell = new WebSocket(new URL('api/' + mine.at + '/terminal', location.href.replace(/^http/, 'ws')));
  mine.shell.binaryType = 'arraybuffer';
  const decoder = new TextDecoder();
  mine.shell.onmessage = (e) => append($('screen'), typeof e.data === 'string' ? e.data : decoder.decode(e.data, { stream: true }));
  const files = await listFiles();
  if (files.length === 0) {
    document.forms.edit.content.value = start;
    return; // the first save brings an app
  }
  if (files.some((f) => f.path === 'server.mjs')) await openFile('server.mjs');
  await look(mine);
}

// append adds text at the end of what is shown, which has the last 100,000 characters.
function append(element, text) {
  element.textContent = (element.textContent + text.replaceAll('\r', '')).slice(-100_000);
  element.scrollTop = element.scrollHeight;
}

async function listFiles() {
  const files = await call('GET', open.at + '/files');
  $('files').replaceChildren(...files.map((f) => item(f.path, () => openFile(f.path))));
  return files;
}

const pathOf = (path) => path.split('/').map(encodeURIComponent).join('/');

async function openFile(path) {
  document.forms.edit.path.value = path;
  document.forms.edit.content.value = await call('GET', `${open.at}/files/${pathOf(path)}`);
}

// look shows the app in the frame once it listens, and again before the link ends.
async function look(mine) {
  for (let tries = 0; tries < 60; tries++) {
    const { portReachable } = await call('GET', mine.at + '/app');
    if (portReachable || open !== mine) break;
    await new Promise((done) => setTimeout(done, 500));
  }
  const link = await call('POST', mine.at + '/preview', { seconds: 0 });
  if (open !== mine) return;
  $('preview').ariaBusy = 'true';
  $('preview').src = link.url;
  mine.renewal = setTimeout(() => look(mine).catch(() => {}), Math.max(5_000, Date.parse(link.ends) - Date.now() - 10_000));
}

$('preview').addEventListener('load', () => { $('preview').ariaBusy = 'false'; });

function on(id, event, act) {
  $(id).addEventListener(event, (e) => {
    e.preventDefault();
    Promise.resolve(act(e.target)).catch((err) => $('error').hidden && fail(err.message));
  });
}

on('login', 'submit', async (form) => {
  await call('POST', 'session', { workspace: form.workspace.value, token: form.token.value });
  form.reset();
  await home();
});
on('logout', 'click', async () => {
  await call('DELETE', 'session');
  location.reload();
});
on('create', 'submit', async (form) => {
  const p = await call('POST', 'projects', { name: form.name.value, resource: form.resource.value });
  form.name.value = '';
  await enter(p);
});
on('back', 'click', home);
on('restart', 'click', () => call('POST', open.at + '/restart'));
on('edit', 'submit', async (form) => {
  const mine = open;
  await call('PUT', `${mine.at}/files/${pathOf(form.path.value)}`, form.content.value);
  await listFiles();
  await look(mine);
});
on('share', 'click', async () => {
  const link = await call('POST', open.at + '/preview', { seconds: 3600 });
  $('shared').textContent = `Anybody with this link can see the app until ${new Date(link.ends).toLocaleString()}: ${link.url}`;
  $('shared').hidden = false;
});
on('revoke', 'click', async () => {
  await call('DELETE', open.at + '/preview');
  $('shared').hidden = true;
  await look(open);
});
on('delete', 'click', async () => {
  await call('DELETE', open.at);
  await home();
});
on('type', 'submit', (form) => {
  open.shell?.send(form.line.value + '\n');
  form.line.value = '';
});

home().catch(() => {
  show('login');
  $('error').hidden = true;
});
