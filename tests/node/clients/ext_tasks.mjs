// The TypeScript client with `ext-tasks`: node ext_tasks.mjs URL drives every course; with a second argument, a
// reference that an earlier process printed, it takes that task up again. One JSON object on standard output.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  createApplicationInputHandler,
  createTaskSessionFromClient,
} from "@modelcontextprotocol/ext-tasks/client";

const [url, reference] = process.argv.slice(2);
const TASKS = "io.modelcontextprotocol/tasks";
const VERSION = "2026-07-28";
const clientInfo = { name: "ext-tasks-script", version: "1" };
const clientCapabilities = { elicitation: { form: {} }, extensions: { [TASKS]: {} } };

// The client library refuses results that are tasks, so `ext-tasks` wants its host to send such requests itself.
let number = 1000;
async function rawDispatch(request) {
  const id = number++;
  const { name, uri, taskId } = request.params;
  const named = name ?? uri ?? taskId;
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": VERSION,
      "mcp-method": request.method,
      ...(named === undefined ? {} : { "mcp-name": named }),
    },
    body: JSON.stringify({ ...request, jsonrpc: "2.0", id }),
  });
  const text = await response.text();
  const isStream = (response.headers.get("content-type") ?? "").includes("text/event-stream");
  const messages = isStream
    ? text.split("\n").filter((line) => line.startsWith("data:")).map((line) => JSON.parse(line.slice(5)))
    : [JSON.parse(text)];
  return messages.find((message) => message.id === id);
}

const client = new Client(clientInfo, {
  capabilities: clientCapabilities,
  versionNegotiation: { mode: { pin: VERSION } },
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const refuse = () => {
  throw new Error("nobody asked for that");
};
const session = createTaskSessionFromClient(client, {
  endpointId: url,
  rawDispatch,
  v2RequestFraming: { protocolVersion: VERSION, clientInfo, clientCapabilities },
  onInputRequest: createApplicationInputHandler({
    elicitation: () => ({ action: "accept", content: { confirm: true } }),
    sampling: refuse,
    roots: refuse,
  }),
});

async function settled(execution) {
  const { outcome } = await execution.settle();
  return { kind: execution.kind, status: outcome.status, result: outcome.result ?? null };
}

const found = {};
if (reference === undefined) {
  found.approve = await settled(await session.callTool("slow_compute", { seconds: 0, label: "ext-tasks" }));
  found.deny = await settled(await session.callTool("denied_job", {}));
  found.input = await settled(await session.callTool("confirm_delete", { filename: "ext-tasks" }));
  const cancelled = await session.callTool("slow_compute", { seconds: 600, label: "ext-tasks, cancelled" });
  await cancelled.cancel();
  found.cancel = await settled(cancelled);
  const left = await session.callTool("slow_compute", { seconds: 1, label: "ext-tasks, left" });
  await left.handoff((kept) => {
    found.left = JSON.stringify(kept);
  });
} else {
  found.resume = await settled(await session.resumeTask(JSON.parse(reference)));
}
// Closing the session would cancel what was handed over, so the process just ends.
process.stdout.write(JSON.stringify(found), () => process.exit(0));
