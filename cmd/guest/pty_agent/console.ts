/** The guest's console, for messages that the host cannot send over a vsock. */
const CONSOLE = "/dev/console";

const handlers = new Map<string, () => void>();

/** Calls a function whenever the host writes a line, from now on. */
export function onLine(line: string, handler: () => void): void {
  const isRead = handlers.size > 0;
  handlers.set(line, handler);
  if (!isRead) read().catch((error) => console.error("sbx-pty-agent: the console cannot be read:", error));
}

/** Writes a message for the host as a separate line. */
export function sayLine(line: string): void {
  Deno.writeTextFileSync(CONSOLE, `\n${line}\n`);
}

async function read(): Promise<void> {
  using input = await Deno.open(CONSOLE);
  const bytes = new Uint8Array(256);
  const decoder = new TextDecoder();
  for (let count = await input.read(bytes); count !== null; count = await input.read(bytes)) {
    const text = decoder.decode(bytes.subarray(0, count));
    for (const [line, handler] of handlers) if (text.includes(line)) handler();
  }
}
