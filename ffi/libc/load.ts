/** Functions of libc for programs of the guest, which must start fast. Linux only. */

type Definitions = Readonly<Record<string, Deno.ForeignFunction>>;
type Functions<T extends Definitions> = { [Name in keyof T]: Deno.UnsafeFnPointer<T[Name]>["call"] };

let dlsym: ReturnType<typeof loadDlsym> | undefined;

function loadDlsym() {
  const { symbols } = Deno.dlopen("libc.so.6", {
    dlsym: { parameters: ["pointer", "buffer"], result: "pointer" },
  });
  return symbols.dlsym;
}

/**
 * Finds functions by dlsym(3). `Deno.dlopen` compiles a caller for each of them, unless it blocks, and in an
 * emulated guest that takes 8 ms for one; each call takes 10 µs more without.
 *
 * @throws {Error} this libc has not all of them
 */
export function loadFunctions<const T extends Definitions>(definitions: T): Functions<T> {
  const find = dlsym ??= loadDlsym();
  const entries = Object.entries(definitions).map(([name, definition]) => {
    const address = find(null, new TextEncoder().encode(`${definition.name ?? name}\0`));
    if (address === null) throw new Error(`libc has no ${name}`);
    const pointer = new Deno.UnsafeFnPointer<Deno.ForeignFunction>(
      address as Deno.PointerObject<never>,
      definition,
    );
    return [name, pointer.call.bind(pointer)];
  });
  return Object.fromEntries(entries);
}

/** Address of a buffer's first byte. The buffer must be held as long as the address is used. */
export function addressOf(bytes: Uint8Array<ArrayBuffer>): bigint {
  return BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(bytes)));
}
