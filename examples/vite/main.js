import './style.css';
import { message } from './message.js';

const show = (text) => { document.querySelector('#message').textContent = text; };
show(message);

// An edit of message.js arrives over Vite's WebSocket and replaces the module; the page stays.
import.meta.hot?.accept('./message.js', (next) => show(next.message));

const events = new EventSource('/events');
events.onmessage = ({ data }) => { document.querySelector('#events').textContent = data; };
