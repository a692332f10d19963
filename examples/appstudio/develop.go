// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"unicode/utf8"

	"github.com/sandbar-dev/sandbar/client"
)

// instanceOf finds the instance behind a request, with its data plane, as the person.
func instanceOf(p *person, r *http.Request) (*client.Instance, error) {
	return p.Sandboxes.Instance(r.Context(), resourceOf(r.PathValue("resource")), namespace, r.PathValue("name"))
}

// file is an entry of a project's tree.
type file struct {
	Path string `json:"path"`
	Type string `json:"type"`
	Size int64  `json:"size"`
}

// listFiles lists the tree without what package managers bring.
func listFiles(p *person, w http.ResponseWriter, r *http.Request) error {
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	res, err := i.Do(r.Context(), client.Request{Verb: "files", Query: url.Values{"exclude": {"node_modules", ".git"}}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	files := []file{}
	for decoder := json.NewDecoder(res.Body); ; {
		var f file
		if err := decoder.Decode(&f); errors.Is(err, io.EOF) {
			return answer(w, files)
		} else if err != nil {
			return fmt.Errorf("reading the list of files: %w", err)
		}
		if f.Type == "file" { // the first line, the head, has no type
			files = append(files, f)
		}
	}
}

func readFile(p *person, w http.ResponseWriter, r *http.Request) error {
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	res, err := i.Do(r.Context(), client.Request{Verb: "files", Tail: r.PathValue("path")})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	content, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1)) //nolint:forbidigo // maxBody
	if err != nil {
		return fmt.Errorf("reading %s: %w", r.PathValue("path"), err)
	}
	if len(content) > maxBody || !utf8.Valid(content) {
		return requestError(fmt.Sprintf("%s is not a text of up to %d bytes", r.PathValue("path"), maxBody))
	}
	// The text is the sandbox's: nosniff and this type keep a browser from taking it for a page of this site.
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err = w.Write(content)
	return err
}

// writeFile sends one file as a batch. The runner starts the app again as restartRule says.
func writeFile(p *person, w http.ResponseWriter, r *http.Request) error {
	content, err := io.ReadAll(r.Body) //nolint:forbidigo // maxBody, by newStudio
	if err != nil {
		return err
	}
	if !utf8.Valid(content) {
		return requestError("a file that is edited here is a text in UTF-8")
	}
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	batch := map[string]any{"files": []map[string]string{{"path": r.PathValue("path"), "content": string(content)}}, "restart": restartRule(r.PathValue("resource"))}
	if err := i.DoJSON(r.Context(), client.Request{Method: http.MethodPost, Verb: "sync"}, batch, nil); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func restart(p *person, w http.ResponseWriter, r *http.Request) error {
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	if err := i.Restart(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// appState says whether the app can be looked at. A kind without the verb process, which is that of Sandbar's runner, says
// nothing of it: then it counts as one that can.
func appState(p *person, w http.ResponseWriter, r *http.Request) error {
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	state := struct {
		State         string `json:"state"`
		PortReachable bool   `json:"portReachable"`
	}{PortReachable: true}
	if i.Has("process") {
		if err := i.DoJSON(r.Context(), client.Request{Verb: "process"}, nil, &state); err != nil {
			return err
		}
	}
	return answer(w, state)
}

// followLog passes the log on as server-sent events, until the browser has gone. The client resumes it behind a lost
// connection.
func followLog(p *person, w http.ResponseWriter, r *http.Request) error {
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flusher := http.NewResponseController(w)
	tail, connected := 200, false
	for event, err := range i.Logs(r.Context(), client.LogOptions{Follow: true, Tail: &tail, Wait: true}) {
		text := string(event.Record.Data)
		switch {
		case r.Context().Err() != nil:
			return nil
		case err != nil:
			text = err.Error() + "\n"
		case event.Type == client.LogConnected:
			connected = true
			continue
		case event.Type == client.LogDisconnected && connected:
			text = "[the connection is lost and is made again]\n"
		case event.Type != client.LogOutput:
			continue
		}
		line, err := json.Marshal(text) // without line breaks, which would end the event
		if err != nil {
			return nil
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", line); err != nil || flusher.Flush() != nil {
			return nil // the answer has begun: there is nobody to tell
		}
	}
	return nil
}

// preview makes a link to the app: for the frame, or to be shared. Anybody with the link sees what the person may see, until it
// ends or is revoked.
func preview(p *person, w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Seconds int64 `json:"seconds"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return requestError("reading how long the link lasts: " + err.Error())
	}
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	link, err := i.Preview(r.Context(), client.PreviewOptions{ExpirationSeconds: in.Seconds})
	if err != nil {
		return err
	}
	return answer(w, map[string]any{"url": link.URL, "ends": link.SessionExpires})
}

func revoke(p *person, w http.ResponseWriter, r *http.Request) error {
	i, err := instanceOf(p, r)
	if err != nil {
		return err
	}
	if err := i.RevokePreviews(r.Context()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
