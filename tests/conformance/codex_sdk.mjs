// Drives the command through the official TypeScript SDK and prints what came back as one JSON object.
// Arguments: the SDK's module, the command, the server's URL, a folder to work in.
import { pathToFileURL } from "node:url";

const [sdk, command, baseUrl, folder] = process.argv.slice(2);
const { Codex } = await import(pathToFileURL(sdk).href);
const codex = new Codex({
  codexPathOverride: command,
  baseUrl,
  apiKey: "sk-from-the-sdk",
  config: { agents: { max_threads: 3 } },
});
const options = {
  model: "gpt-scripted",
  workingDirectory: folder,
  sandboxMode: "workspace-write",
  skipGitRepoCheck: true,
  approvalPolicy: "never",
  modelReasoningEffort: "low",
  webSearchMode: "disabled",
  networkAccessEnabled: false,
  additionalDirectories: [folder],
  threadSource: "user",
};

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return String(error.message);
  }
  return null;
}

const thread = codex.startThread(options);
const ran = await thread.run("run: say hello");

const events = [];
const streamed = await thread.runStreamed("stream: write a file");
for await (const event of streamed.events) events.push(event);

const resumed = await codex
  .resumeThread(thread.id, options)
  .run([{ type: "text", text: "resume: what did I say?" }, { type: "local_image", path: `${folder}/a.png` }]);

const schema = {
  type: "object",
  properties: { score: { type: "integer" } },
  required: ["score"],
  additionalProperties: false,
};
const structured = await codex.startThread(options).run("schema: score it", { outputSchema: schema });
const failed = await failure(codex.startThread(options).run("fail: be refused"));
const unknown = await failure(codex.resumeThread("no-such-thread", options).run("hello"));

console.log(JSON.stringify({ threadId: thread.id, ran, events, resumed, structured, failed, unknown }));
