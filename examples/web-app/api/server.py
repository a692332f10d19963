"""Notes in PostgreSQL, by HTTP."""

import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2

GREETING = "Hello from the API"
LONGEST_NOTE = 500


def connect():
    """Connects as libpq's variables say, and makes the table if this is the first time."""
    db = psycopg2.connect(connect_timeout=5)
    with db, db.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS note (id serial PRIMARY KEY, text varchar(500) NOT NULL)")
    return db


class Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def answer(self, code, body, content_type="text/plain; charset=utf-8"):
        data = body.encode()
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/healthz":
            self.answer(200, "ok\n")
        elif self.path == "/greeting":
            self.answer(200, GREETING)
        elif self.path == "/notes":
            self.with_database(self.list_notes)
        else:
            self.answer(404, "not found\n")

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if self.path != "/notes" or not 0 < length <= 4 * LONGEST_NOTE:
            self.close_connection = True
            self.answer(404 if self.path != "/notes" else 413, "not taken\n")
            return
        text = self.rfile.read(length).decode(errors="replace")[:LONGEST_NOTE]
        self.with_database(lambda cursor: self.add_note(cursor, text))

    def with_database(self, work):
        try:
            db = connect()
            try:
                with db, db.cursor() as cursor:
                    work(cursor)
            finally:
                db.close()
        except psycopg2.Error as error:
            print("database:", str(error).strip(), file=sys.stderr, flush=True)
            self.answer(503, "the database does not answer\n")

    def list_notes(self, cursor):
        cursor.execute("SELECT id, text FROM note ORDER BY id")
        notes = [{"id": row[0], "text": row[1]} for row in cursor.fetchall()]
        self.answer(200, json.dumps(notes) + "\n", "application/json")

    def add_note(self, cursor, text):
        cursor.execute("INSERT INTO note (text) VALUES (%s) RETURNING id", (text,))
        self.answer(201, json.dumps({"id": cursor.fetchone()[0], "text": text}) + "\n", "application/json")


def main():
    port = int(os.environ.get("PORT", "8000"))
    server = ThreadingHTTPServer(("0.0.0.0", port), Handler)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print(f"api: listening on {port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
