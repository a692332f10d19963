// A service worker for all of the origin. It answers /from-worker, so that a page can tell
// whether it controls the page.
self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
self.addEventListener('fetch', (event) => {
  if (new URL(event.request.url).pathname === '/from-worker') {
    event.respondWith(new Response('from the service worker'));
  }
});
