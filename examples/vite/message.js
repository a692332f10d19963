export const message = 'Hello from Vite';
