/** Mounting without a program for it, which minimal guests lack. Linux only. */

/** @throws {Error} the kernel refuses, which it does for anyone but root */
export function mount(type: string, target: string): void {
  const libc = Deno.dlopen("libc.so.6", {
    mount: { parameters: ["buffer", "buffer", "buffer", "u64", "pointer"], result: "i32" },
  });
  try {
    const text = (value: string) => new TextEncoder().encode(`${value}\0`);
    if (libc.symbols.mount(text("none"), text(target), text(type), 0n, null) !== 0) {
      throw new Error(`${type} cannot be mounted at ${target}`);
    }
  } finally {
    libc.close();
  }
}
