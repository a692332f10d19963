#!/usr/bin/env python3
# Copyright The Sandbar Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes a file into a sandbox and lists what is there: python3 sandbox.py NAME FILE TEXT

Needs kubectl, a kubeconfig with a token that leads to the workspace, and "sandbar trust" once.
"""
import base64, json, os, pathlib, ssl, subprocess, sys, urllib.parse, urllib.request


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token with it."""

    def redirect_request(self, *args):
        return None


def kubectl(*args):
    return json.loads(subprocess.check_output(["kubectl", *args, "-o", "json"]))


class Sandbox:
    """The verbs of one SandboxRunner, called with the kubeconfig's own token."""

    def __init__(self, name):
        kubeconfig = kubectl("config", "view", "--raw", "--minify")
        user = kubeconfig["users"][0]["user"]
        kcp = urllib.parse.urlsplit(kubeconfig["clusters"][0]["cluster"]["server"])
        server = f"{kcp.scheme}://{kcp.netloc.lower()}{'' if kcp.port else ':443'}"
        self.token = user.get("token") or pathlib.Path(user["tokenFile"]).read_text().strip()
        runner = kubectl("get", "sandboxrunners.sandbar.dev", name)
        self.url, meta = runner["status"]["dataPlane"]["url"], runner["metadata"]
        home = pathlib.Path.home()
        config = pathlib.Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        if sys.platform == "darwin":
            config = home / "Library" / "Application Support"
        config = pathlib.Path(os.environ.get("SANDBAR_CONFIG_DIR") or config / "sandbar")
        planes = json.loads((config / "trust.json").read_text())["dataPlanes"]
        own = f"/dataplane/clusters/{meta['annotations']['kcp.io/cluster']}/namespaces/{meta['namespace']}/sandboxrunners/{name}"
        plane = next((p for p in planes if self.url == p["url"].rstrip("/") + own and server in p.get("servers", [server])), None)
        if plane is None:  # the address is the provider's word; the token is yours
            raise PermissionError(f"the data plane of {self.url} is not trusted: run sandbar trust")
        bundle = base64.b64decode(plane.get("caBundle", "")).decode() or None
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=bundle))
        self.opener = urllib.request.build_opener(https, NoRedirect)

    def call(self, verb, body=None):
        """GET, or POST with a body as JSON. The answer can be read line by line."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        return self.opener.open(urllib.request.Request(f"{self.url}/{verb}", data, headers))


if __name__ == "__main__":
    name, path, text = sys.argv[1:]
    sandbox = Sandbox(name)
    sandbox.call("sync", {"files": [{"path": path, "content": text}]})
    for line in list(sandbox.call("files"))[1:]:
        print(json.loads(line)["path"])
