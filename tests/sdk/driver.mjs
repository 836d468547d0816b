// The TypeScript SDK for tests/sdk/sdk_test.ts, in Node, Deno or Bun: a request a line of JSON on standard input, its answer on
// standard output. Argument: the SDK's module.
import { createInterface } from "node:readline";
import process from "node:process";

const { Client, Sandbox } = await import(process.argv[2]);
const objects = new Map();
let next = 0;
const keep = (object) => {
  objects.set(String(++next), object);
  return String(next);
};
const held = (id) => objects.get(id);
const text = (bytes) => new TextDecoder().decode(bytes);
const result = ({ stdout, stderr, exitCode, truncated, eventId }) => ({
  stdout,
  stderr,
  exit_code: exitCode,
  truncated,
  event_id: eventId,
});
const about = (vm) => ({ vm: keep(vm), id: vm.id, name: vm.name });

const OPS = {
  connect: async (options) => ({ client: keep(await Client.connect(options)) }),
  create: async ({ client, ram_mb, queue_secs, ...options }) =>
    about(await Sandbox.create({ client: held(client), ramMb: ram_mb, queueSecs: queue_secs, ...options })),
  get: async ({ client, name }) => about(await Sandbox.get(name, { client: held(client) })),
  list: async ({ client }) => (await Sandbox.list({ client: held(client) })).map(({ name }) => name),
  raw: ({ client, method, path, headers }) => held(client).http.json(method, path, { headers }),
  socket: async ({ client, path }) => (await held(client).socket(path)).close(),
  info: ({ vm }) => held(vm).info(),
  status: ({ vm }) => held(vm).status(),
  exec: async ({ vm, command, ...options }) => {
    if (options.stdin_bytes) options.stdin = new Uint8Array(options.stdin_bytes);
    return result(await held(vm).exec(command, options));
  },
  // Counts the output of a program by its callback, and throws or aborts after some bytes.
  count: async ({ vm, command, throw_after, abort_after }) => {
    let bytes = 0;
    const abort = new AbortController();
    const onStdout = (piece) => {
      bytes += piece.length;
      if (throw_after && bytes >= throw_after) throw new Error("the callback threw");
      if (abort_after && bytes >= abort_after) abort.abort();
    };
    const { truncated } = await held(vm).exec(command, { onStdout, signal: abort.signal });
    return { bytes, truncated };
  },
  pipe: async ({ vm, command, bytes }) => {
    const program = await held(vm).spawn(command);
    const reading = (async () => {
      let count = 0;
      for await (const { data } of program) count += data.length;
      return count;
    })();
    await program.write(new Uint8Array(bytes).fill(120));
    await program.closeInput();
    return { bytes: await reading, exit_code: program.exit.exitCode };
  },
  pty: async ({ vm, input, ...options }) => {
    const pty = await held(vm).pty(options);
    if (input) await pty.write(input);
    let shown = "";
    for await (const piece of pty) shown += text(piece);
    return { text: shown, code: pty.end.code };
  },
  write: ({ vm, path, content, mode }) => held(vm).files.write(path, content, { mode }),
  write_size: ({ vm, path, size }) => held(vm).files.write(path, new Uint8Array(size).fill(7)),
  // Writes a file of zeros, a mebibyte at a time.
  upload: ({ vm, path, mebibytes }) => {
    async function* pieces() {
      for (let at = 0; at < mebibytes; at++) yield await Promise.resolve(new Uint8Array(1024 * 1024));
    }
    return held(vm).files.write(path, pieces());
  },
  download: async ({ vm, path }) => {
    let count = 0;
    for await (const piece of held(vm).files.stream(path)) count += piece.length;
    return count;
  },
  read: async ({ vm, path }) => (await held(vm).files.read(path)).length,
  read_text: ({ vm, path }) => held(vm).files.readText(path),
  list_files: async ({ vm, path, depth }) =>
    (await held(vm).files.list(path, { depth })).map((entry) => entry.path),
  make_folder: ({ vm, path }) => held(vm).files.makeFolder(path),
  port_open: ({ vm, port }) => held(vm).ports.open(port),
  port_list: async ({ vm }) => (await held(vm).ports.list()).map(({ guest_port }) => guest_port),
  port_close: ({ vm, port }) => held(vm).ports.close(port),
  fork: async ({ vm, ...options }) => (await held(vm).fork(options)).map(about),
  suspend: ({ vm }) => held(vm).suspend(),
  resume: ({ vm }) => held(vm).resume(),
  pause: ({ vm }) => held(vm).pause(),
  snapshot: async ({ vm, label }) => (await held(vm).snapshot(label)).id,
  undo: async ({ vm, to, dry_run }) => (await held(vm).undo({ to, dryRun: dry_run })).changes_count,
  bring: ({ vm, dir }) => held(vm).bring(dir),
  pull: async ({ vm }) => (await held(vm).pull()).map(({ dir, patch }) => ({ dir, patch: text(patch) })),
  // The sequences of events, up to a number of them.
  events: async ({ vm, most, ...options }) => {
    const sequences = [];
    for await (const event of held(vm).events(options)) {
      sequences.push(event.common.sequence);
      if (sequences.length === most) break;
    }
    return sequences;
  },
  // Events that match, as they come, in an object of their own.
  follow: ({ vm, ...options }) => {
    const abort = new AbortController();
    const followed = { seen: [], abort };
    followed.done = (async () => {
      try {
        for await (const event of held(vm).events({ ...options, signal: abort.signal })) {
          followed.seen.push([
            event.common.sequence,
            event.process?.activity?.command ?? null,
            event.common.event_id,
          ]);
        }
      } catch (error) {
        if (!abort.signal.aborted) throw error;
      }
    })();
    return { follow: keep(followed) };
  },
  followed: ({ follow }) => held(follow).seen,
  unfollow: async ({ follow }) => {
    held(follow).abort.abort();
    await held(follow).done;
    return held(follow).seen;
  },
  ask: ({ vm, answer }) => {
    const handler = held(vm).onAsk((ask) => {
      if (answer === "throw") throw new Error(`no answer for ${ask.rule_id}`);
      return answer;
    });
    return { handler: keep(handler) };
  },
  ask_close: async ({ handler }) => {
    try {
      await held(handler).close();
      return null;
    } catch (error) {
      return error.message;
    }
  },
  why: async ({ vm, event }) => (await held(vm).why(event)).event.common.event_type,
  costs: async ({ vm }) => (await held(vm).costs()).budgets.map(({ limit, max }) => [limit, max]),
  certificate: async ({ vm }) => (await held(vm).certificate()).payloadType,
  delete: ({ vm, force }) => held(vm).delete({ force }),
  dispose: ({ vm }) => held(vm)[Symbol.asyncDispose](),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, op, args } = JSON.parse(line);
  const answer = (reply) => process.stdout.write(JSON.stringify({ id, ...reply }) + "\n");
  Promise.resolve().then(() => OPS[op](args)).then(
    (value) => answer({ value: value ?? null }),
    (error) =>
      answer({
        error: {
          code: error.code ?? error.name,
          message: error.message,
          hint: error.hint ?? null,
          event_id: error.eventId ?? null,
          exit_code: error.exitCode ?? null,
        },
      }),
  );
}
process.exit(0);
