// Copyright The Sandbar Authors
// SPDX-License-Identifier: Apache-2.0

// Prints the state of a sandbox and the end of its log: node sandbox.ts NAME
//
// Needs Node 22.19 or newer, kubectl, a kubeconfig with a token that leads to the workspace, and
// "sandbar trust" once.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import * as tls from "node:tls";

function kubectl(...args: string[]): any {
  return JSON.parse(execFileSync("kubectl", [...args, "-o", "json"], { encoding: "utf8" }));
}

/** Returns a function that calls verbs of one SandboxRunner with the kubeconfig's own token. */
function sandbox(name: string): (verb: string, init?: RequestInit) => Promise<Response> {
  const { users, clusters } = kubectl("config", "view", "--raw", "--minify");
  const { user } = users[0];
  const kcp = new URL(clusters[0].cluster.server);
  const server = `${kcp.protocol}//${kcp.hostname}:${kcp.port || 443}`;
  const token: string = user.token ?? readFileSync(user.tokenFile, "utf8").trim();
  const { metadata, status } = kubectl("get", "sandboxrunners.sandbar.dev", name);
  const url: string = status.dataPlane.url;
  const mac = process.platform === "darwin" && join(homedir(), "Library", "Application Support");
  const configs = mac || process.env.XDG_CONFIG_HOME || join(homedir(), ".config");
  const config = process.env.SANDBAR_CONFIG_DIR || join(configs, "sandbar");
  const trusted = JSON.parse(readFileSync(join(config, "trust.json"), "utf8"));
  const cluster = metadata.annotations["kcp.io/cluster"];
  const own = `/dataplane/clusters/${cluster}/namespaces/${metadata.namespace}/sandboxrunners/${name}`;
  const plane = trusted.dataPlanes.find(
    (p: { url: string; servers?: string[] }) => url === p.url.replace(/\/*$/, "") + own && (p.servers ?? [server]).includes(server),
  );
  // The address is the provider's word; the token is yours.
  if (!plane) throw new Error(`the data plane of ${url} is not trusted: run sandbar trust`);
  if (plane.caBundle) tls.setDefaultCACertificates([Buffer.from(plane.caBundle, "base64").toString()]);
  return async (verb, init = {}) => {
    const headers = { ...init.headers, Authorization: `Bearer ${token}` };
    const answer = await fetch(`${url}/${verb}`, { ...init, headers, redirect: "error" });
    if (!answer.ok) throw new Error(`${verb}: ${answer.status} ${await answer.text()}`);
    return answer;
  };
}

const call = sandbox(process.argv[2]);
console.log((await (await call("status")).json()).phase);
for await (const chunk of (await call("log?tail=10")).body!) process.stdout.write(chunk);
