/** Runs a program and returns its standard output. @throws {Error} with its standard error */
export async function text([program, ...args]: string[], cwd?: string): Promise<string> {
  const command = new Deno.Command(program, { args, cwd, stdin: "null" });
  const { success, code, stdout, stderr } = await command.output();
  if (success) return new TextDecoder().decode(stdout);
  throw new Error(`${program} exited with ${code}: ${new TextDecoder().decode(stderr).trim()}`);
}
