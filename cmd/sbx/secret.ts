import { SbxError } from "../../lib/base/error/mod.ts";
import { note } from "./output.ts";

/** Most bytes that are read of what should be one key. */
const SECRET_BYTES_MAX = 64 * 1024;
const [ENTER, NEWLINE, CTRL_C, CTRL_D, BACKSPACE, DELETE] = [0x0d, 0x0a, 0x03, 0x04, 0x08, 0x7f];

/**
 * A secret from standard input, or typed at a terminal that shows nothing of it; never an argument, which every
 * program of the machine may read.
 *
 * @throws SbxError `credential.invalid` when there is none
 */
export async function readSecret(prompt: string): Promise<string> {
  const secret = (Deno.stdin.isTerminal() ? await typed(prompt) : await piped()).trim();
  if (secret !== "") return secret;
  throw new SbxError("credential.invalid", "no key was given", {
    hint: "type it at the prompt, or pipe it in: sbx credentials add anthropic < key.txt",
  });
}

async function piped(): Promise<string> {
  const bytes: number[] = [];
  for await (const chunk of Deno.stdin.readable) {
    bytes.push(...chunk);
    if (bytes.length > SECRET_BYTES_MAX) {
      throw new SbxError(
        "credential.invalid",
        `standard input is over ${SECRET_BYTES_MAX} bytes, so it is no key`,
      );
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}

async function typed(prompt: string): Promise<string> {
  await Deno.stderr.write(new TextEncoder().encode(prompt));
  Deno.stdin.setRaw(true);
  try {
    return await typedLine();
  } finally {
    Deno.stdin.setRaw(false);
    note("");
  }
}

async function typedLine(): Promise<string> {
  const bytes: number[] = [];
  const chunk = new Uint8Array(1024);
  for (let read = await Deno.stdin.read(chunk); read !== null; read = await Deno.stdin.read(chunk)) {
    for (const byte of chunk.subarray(0, read)) {
      if (byte === CTRL_C) throw new SbxError("credential.invalid", "nothing was added");
      if (byte === ENTER || byte === NEWLINE || byte === CTRL_D) {
        return new TextDecoder().decode(Uint8Array.from(bytes));
      }
      if (byte === BACKSPACE || byte === DELETE) bytes.pop();
      else if (bytes.length < SECRET_BYTES_MAX) bytes.push(byte);
    }
  }
  return new TextDecoder().decode(Uint8Array.from(bytes));
}
